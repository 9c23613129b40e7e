"""Figures of phase 1: standard attention's traffic, the wall of shared memory, and the primer's bank conflicts."""

from banks import draw_banks, passes
from constants import BANK_BYTES, BANKS, WARP, Source, device
from draw import MARGIN, WIDTH, Figure
from rooms import script

KIB = 1024
MIB = 1024 * 1024


def standard_traffic():
    N, D, element = 1024, 64, 2
    side = Source("phase1_naive/standard.cuh").expect(
        "scores = Sq * D * key_tiles + Sk * D * query_tiles, softmax = 3 * Sq * Sk, "
        "values = Sq * Sk * column_tiles + Sk * D * query_tiles;").number("kResultTile")
    tiles = N // side
    scores, strips = N * N * element, tiles * N * D * element  # read once per tile of the other operand
    moved = {"Q": strips, "K": strips, "S out": scores, "S in": 3 * scores, "P out": scores, "P in": D // side * scores,
             "V": strips, "O": N * D * element}
    intermediate = sum(moved[name] for name in ("S out", "S in", "P out", "P in"))
    figure = Figure(
        "What standard attention moves through global memory",
        "Three kernels, one after the other. The first writes the scores S to global memory, the second reads them "
        "three times and writes the probabilities P, the third reads P. S and P are drawn to scale beside Q, K, V "
        f"and O, which are {N // D} times as small.")

    chip, door, memory, large = 52, 118, 252, 150
    small = large * D / N
    figure.text(MARGIN, 36, "Three kernels on the chip")
    for x, w, name in ((24, 176, "scores"), (216, 184, "softmax"), (416, 200, "values")):
        figure.rect(x, chip, w, 48, fill="plain", line="plain", round_=6)
        figure.text(x + w / 2, chip + 30, name, anchor="middle")

    top = memory + 10
    for x, w, name, colour in ((40, small, "Q", "q"), (76, small, "K", "k"), (118, large, "S", "s"),
                               (326, large, "P", "s"), (528, small, "V", "v"), (586, small, "O", "o")):
        figure.rect(x, top, w, large, fill=colour, line=colour, round_=0)
        figure.text(x + w / 2, top + large + 22, name, anchor="middle", colour=colour, bold=True)
        if w == large:
            figure.text(x + w / 2, top + large / 2 + 6, f"{N} × {N}", anchor="middle")

    def flow(x, name, colour, out=False, label=True):
        bytes_moved = moved[name]
        width = max(2.0, 6 * bytes_moved / scores)
        ends = [(x, door), (x, memory)]
        figure.arrow(*(ends if out else ends[::-1]), line=colour, width=width, head=12 + width)
        if label:
            figure.text(x + width / 2 + 11, (door + memory) / 2 + 5, f"{bytes_moved / MIB:.2g} MiB", size=15,
                        colour=colour)

    flow(40 + small / 2, "Q", "q", label=False)
    flow(76 + small / 2, "K", "k", label=False)
    flow(138, "S out", "s", out=True)
    flow(236, "S in", "s")
    flow(344, "P out", "s", out=True)
    flow(438, "P in", "s")
    flow(528 + small / 2, "V", "v", label=False)
    flow(586 + small / 2, "O", "o", out=True, label=False)
    bottom = top + large + 54
    figure.text(MARGIN, bottom, f"Global memory, to scale (*N* = {N}, *D* = {D}, float16)")
    figure.text(MARGIN, bottom + 26, f"Q, K and V come {tiles} times each, {moved['Q'] / MIB:.2g} MiB an arrow",
                colour="quiet")
    figure.text(MARGIN, bottom + 52, colour="s", bold=True,
                words=f"S and P are {intermediate / MIB:.0f} of the {sum(moved.values()) / MIB:.0f} MiB moved")
    return figure


def shared_bytes(scheme, keys, head_dim, block_rows, element):
    """shared_need() of phase1_naive/shared_need.cpp, in total."""
    Source("common/simt/views/shared_layout.h").expect("return (rows * pitch * sizeof(T) + 15) / 16 * 16;")
    Source("phase1_naive/shared_need.cpp").expect(
        "value_rows = shape.scheme == Scheme::q_blocked ? key_length : kValueTileRows;",
        ".q = matrix_bytes(shape.type, shape.block_rows, shape.head_dim)",
        ".k = matrix_bytes(shape.type, key_length, shape.head_dim)",
        ".v = matrix_bytes(shape.type, value_rows, shape.head_dim)",
        ".s = matrix_bytes(shape.type, shape.block_rows, key_length)")

    def matrix(rows, columns):
        return (rows * columns * element + 15) // 16 * 16

    value_rows = {"A": keys, "B": Source("phase1_naive/shared_need.h").number("kValueTileRows")}[scheme]
    return sum(matrix(*shape) for shape in
               ((block_rows, head_dim), (keys, head_dim), (value_rows, head_dim), (block_rows, keys)))


def longest(scheme, limit, **shape):
    keys = 0
    while shared_bytes(scheme, keys + 1, **shape) <= limit:
        keys += 1
    return keys


def shared_memory_wall():
    source = Source("phase1_naive/shared_need.h")
    shape = {name: source.number(name, within="struct BlockedShape") for name in ("head_dim", "block_rows")}
    shape["element"] = 2  # bytes, float16
    limits = [(device(name).block_bytes_optin, label) for name, label in
              (("rtx5060ti", "RTX 5060 Ti"), ("a100", "A100"), ("h200", "H200"))]
    longest_of = {(scheme, limit): longest(scheme, limit, **shape) for scheme in "AB" for limit, _ in limits}
    figure = Figure(
        "Shared memory of a block against the number of keys",
        "Two straight lines rise with N, scheme A steeply, scheme B less so. Each meets the limit of every device: "
        + "; ".join(f"on the {label} at N = {longest_of['A', limit]} and {longest_of['B', limit]}"
                    for limit, label in limits)
        + ". The tiles of phase 3 are a flat line below all limits.")
    left, right, top, bottom = 68, WIDTH - MARGIN, 50, 420
    most_keys, most_bytes = 640, 256 * KIB

    def at(keys, size):
        return left + (right - left) * keys / most_keys, bottom - (bottom - top) * size / most_bytes

    figure.text(MARGIN, 32, f"KiB of shared memory that a block needs (*D* = {shape['head_dim']}, "
                f"B_r = {shape['block_rows']}, float16)")
    for keys in range(0, most_keys + 1, 128):
        x, y = at(keys, 0)
        figure.line((x, y), (x, y + 5))
        if keys < most_keys:
            figure.text(x, y + 24, f"{keys}", anchor="middle", size=15, colour="quiet")
    figure.text(right, bottom + 24, "keys *N*", anchor="end", size=15, colour="quiet")
    for size in range(0, most_bytes + 1, 64 * KIB):
        x, y = at(0, size)
        figure.line((x - 5, y), (x, y))
        figure.text(x - 9, y + 5, f"{size // KIB}", anchor="end", size=15, colour="quiet")
    figure.line(at(0, most_bytes), at(0, 0), at(most_keys, 0))

    everyone = device("rtx5060ti").block_bytes
    for limit, label in [(everyone, "any GPU, unasked"), *limits]:
        (x0, y), (x1, _) = at(0, limit), at(most_keys, limit)
        figure.line((x0, y), (x1, y), line="wrong", dash="6 4")
        low = limit < most_bytes / 2  # there the rising lines leave room on the right, above it on the left
        figure.text(x1 if low else x0 + 8, y - 7, f"{label}: {limit // KIB} KiB", size=15, colour="wrong",
                    anchor="end" if low else "start")

    for scheme, colour in (("A", "s"), ("B", "k")):
        last = longest(scheme, most_bytes, **shape)
        figure.line(at(0, shared_bytes(scheme, 0, **shape)), at(last, shared_bytes(scheme, last, **shape)), line=colour,
                    width=3)
        x, y = at(longest(scheme, most_bytes // 2, **shape), most_bytes // 2)
        figure.text(x + (-14 if scheme == "A" else 14), y + 6, f"scheme {scheme}", bold=True, colour=colour,
                    anchor="end" if scheme == "A" else "start")
        for limit, _ in limits:
            keys = longest_of[scheme, limit]
            x, y = at(keys, shared_bytes(scheme, keys, **shape))
            figure.circle(x, y, 5, fill=f"{colour}!")
            if scheme == "A":
                figure.text(x - 8, y - 8, f"{keys}", size=16, bold=True, colour=colour, anchor="end")
            else:
                figure.text(x + 9, y + 18, f"{keys}", size=16, bold=True, colour=colour)
    tile = script("phase3_fa2").tiles_bytes(shape["head_dim"], shape["element"])
    figure.line(at(0, tile), at(most_keys, tile), line="o", width=3)
    figure.text(right, at(0, tile)[1] + 20, f"tiles of phase 3: {tile // KIB} KiB, any *N*", colour="o", anchor="end",
                size=16, bold=True)
    return figure


def banks():
    standard = Source("phase1_naive/standard.cuh")
    side = standard.number("kResultTile")
    padded = standard.found(r"using RightTile = .*?kResultTile, (kResultTile[^>]*)>")
    cell = 8.5
    figure = Figure(
        "Bank conflicts of a walk down a column",
        f"{WARP} lanes write one column of a tile, lane k in row k. With rows {side} floats apart all lanes meet in "
        f"one bank; with rows {padded} floats apart each meets a bank of its own.")
    figure.text(MARGIN, 34, f"{WARP} lanes write a column of a tile, lane *k* in row *k*")
    for x, apart, colour in ((MARGIN, side, "wrong"), (WIDTH - MARGIN - cell * BANKS, padded, "plain")):
        firsts = [apart * k for k in range(WARP)]
        turns = passes(firsts, 1)
        figure.text(x, 70, f"Rows {apart} floats apart", bold=True)
        draw_banks(figure, x, 108, cell, cell, firsts, 1, f"{colour}!")
        figure.text(x, 108 + cell * WARP + 28, f"{turns} passes" if turns > 1 else "1 pass", bold=True, colour=colour)
        figure.text(x + cell * BANKS, 108 + cell * WARP + 28, f"{BANKS} banks of {BANK_BYTES} bytes",
                    anchor="end", size=15, colour="quiet")
    return figure


FIGURES = {"standard_traffic": standard_traffic, "shared_memory_wall": shared_memory_wall, "banks": banks}
STAIRS = (("standard attention *", "standard_attention", "f32 B4 H16 N4096 D64"),)
