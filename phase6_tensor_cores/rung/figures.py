"""Figures of phase 6: attention on tensor cores."""

import re

from banks import draw_banks, passes
from constants import BANK_BYTES, BANKS, WARP, Missing, Source, device
from draw import MARGIN, WIDTH, Figure

FRAGMENTS = Source("common/simt/matrix/fragments.h")
PIPELINED = Source("phase6_tensor_cores/mma_pipelined.cuh")
LESSON = Source("phase6_tensor_cores/mma.cuh")
ELEMENT = 2  # bytes
PIECE = 16   # bytes of a row of an 8x8 matrix
KIB = 1024


def accumulator(lane, i):
    """Row and column of element i of a lane's FragmentC."""
    FRAGMENTS.expect("row(int lane, int i) { return lane / 4 + i / 2 * 8; }",
                     "column(int lane, int i) { return lane % 4 * 2 + i % 2; }")
    return lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2


def operand(lane, i):
    """Row and column of element i of a lane's FragmentA, which stands in register i / 2."""
    FRAGMENTS.expect("row(int lane, int i) { return lane / 4 + i / 2 % 2 * 8; }",
                     "column(int lane, int i) { return lane % 4 * 2 + i % 2 + i / 4 * 8; }")
    return lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8


def swizzled(D, row, piece):
    """Where piece `piece` of row `row` lies, as swizzled() in common/attention/swizzle.cuh has it."""
    Source("common/attention/swizzle.cuh").expect("return column ^ (D % 64 == 0 ? row % 8 : row / 2 % 4) * 8;")
    return piece ^ (row % 8 if D % 64 == 0 else row // 2 % 4)


def mma_fragments():
    """The two accumulators of S_ij and the operand of P_ij, lane by lane."""
    scores = {(row, 8 * n + column): (lane, f"{'S' if n == 0 else 'T'}{i // 2}")
              for lane in range(WARP) for n in range(2) for i in range(4) for row, column in [accumulator(lane, i)]}
    weights = {operand(lane, i): (lane, i // 2) for lane in range(WARP) for i in range(8)}
    if any(scores[place][0] != lane for place, (lane, _) in weights.items()):
        raise Missing("mma_fragments draws one picture for two layouts; they are no longer the same")
    shown = 6
    figure = Figure(
        "The accumulators of S_ij are the operand of P_ij",
        f"Left, two neighbouring accumulators of 16 rows and 8 columns; right, the operand A of 16 rows and 16 columns. "
        f"Each field of two elements has the number of the lane that holds it. The {WARP} numbers stand in the same "
        f"fields on both sides. Lane {shown} is marked: its registers c[0] to c[3] of both accumulators become its "
        "registers a[0] to a[3].")
    cell, row = 32.5, 21
    panel, gap = 8 * cell, WIDTH - 2 * MARGIN - 16 * cell
    top = 104
    left, right = MARGIN, MARGIN + panel + gap
    figure.text(left, 36, "S_{ij}, as the product leaves it", bold=True, colour="s")
    figure.text(right, 36, "P_{ij}, as the next one wants it", bold=True, colour="s")
    figure.text(left, 62, "two accumulators of 16 × 8, float32", size=15, colour="quiet")
    figure.text(right, 62, "operand A of 16 × 16, 16 bits", size=15, colour="quiet")

    def draw(x, names):
        for n in range(2):
            figure.text(x + panel / 4 * (2 * n + 1), top - 8, names[n], size=15, colour="quiet", anchor="middle")
        for r in range(16):
            for pair in range(8):
                lane = scores[r, 2 * pair][0]
                mine = lane == shown
                figure.rect(x + cell * pair, top + row * r, cell, row, fill="s!" if mine else "s" if (pair // 4 + r // 8) % 2 == 0 else None,
                            line="rule", round_=0, width=0.75)
                figure.text(x + cell * (pair + 0.5), top + row * r + 16, f"{lane}", size=15, anchor="middle", bold=mine,
                            colour="panel" if mine else "ink")
        figure.rect(x, top, panel, 16 * row, line="s", round_=0, width=2)
        figure.line((x + panel / 2, top), (x + panel / 2, top + 16 * row), line="s", width=2)
        figure.line((x, top + 8 * row), (x + panel, top + 8 * row), line="s", width=1.5, dash="5 4")

    draw(left, ("keys 0 to 7", "keys 8 to 15"))
    draw(right, ("k 0 to 7", "k 8 to 15"))
    middle = top + 8 * row
    figure.arrow((left + panel + 8, middle), (right - 8, middle), line="s", width=3)

    below = top + 16 * row + 30
    figure.text(MARGIN, below, f"Lane {shown} holds, two elements each:", bold=True)
    for n, (of_scores, of_weights) in enumerate(
            ((f"c[{2 * h}], c[{2 * h + 1}] of accumulator {n}", f"a[{2 * n + h}]") for n in range(2) for h in range(2))):
        y = below + 26 * (n + 1)
        row_of, column = operand(shown, 2 * n)
        figure.text(MARGIN, y, f"row {row_of}, columns {column}, {column + 1}", size=16, colour="quiet")
        figure.text(MARGIN + 214, y, of_scores, size=16)
        figure.arrow((MARGIN + 446, y - 5), (MARGIN + 492, y - 5), line="s")
        figure.text(MARGIN + 506, y, of_weights, size=16, bold=True, colour="s")
    return figure


def ldmatrix_banks():
    """The eight rows of one matrix, over the banks."""
    words = PIECE // BANK_BYTES
    piece = 2
    figure = Figure(
        "The eight rows that ldmatrix reads at once, over the 32 banks",
        f"An 8x8 matrix is piece {piece} of eight rows, 16 bytes each. Plain rows of 64 elements have it in the same four "
        "banks: eight passes. Swizzled, the eight pieces lie in eight different groups of banks: one pass. Plain rows "
        "of 96 elements alternate between two groups: four passes, and one again when they are swizzled.")
    left, row = 92, 17
    cell = (WIDTH - MARGIN - left) / BANKS
    figure.text(MARGIN, 34, f"One matrix of an `ldmatrix`: piece {piece} of rows 0 to 7 of K_{{j}}")
    top = 104
    for D, arranged in ((64, False), (64, True), (96, False), (96, True)):
        firsts = [(D * r * ELEMENT + PIECE * (swizzled(D, r, piece) if arranged else piece)) // BANK_BYTES for r in range(8)]
        turns = passes(firsts, words)
        colour = "k" if turns == 1 else "wrong"
        figure.text(MARGIN, top - 34, f"*D* = {D}, {'swizzled rows' if arranged else 'plain rows'}", bold=True)
        figure.text(WIDTH - MARGIN, top - 34, f"{turns} passes" if turns > 1 else "1 pass", anchor="end", bold=True,
                    colour=colour)
        figure.text(left - 10, top - 8, "bank", size=15, colour="quiet", anchor="end")
        for r in range(8):
            figure.text(left - 10, top + row * r + 14, f"row {r}", size=15, colour="quiet", anchor="end")
        draw_banks(figure, left, top, cell, row, firsts, words, colour)
        top += row * 8 + 76
    return figure


def swizzle():
    """Which piece lies where."""
    marked = 2
    figure = Figure(
        "Where the pieces of a row lie",
        "A number is a piece of eight elements, a column of the drawing a place in shared memory. Rows of 64 elements: "
        f"piece p of row r lies at place p XOR r, so that piece {marked}, marked, is at another place in each of eight rows. Rows of "
        "96 elements: pieces change places in groups of four, every second row in another way.")
    cell, row, top = 30, 26, 112
    for x, D in ((MARGIN + 34, 64), (WIDTH - MARGIN - 12 * 23, 96)):
        width = cell if D == 64 else 23
        pieces = D // 8
        figure.text(x - (34 if D == 64 else 0), 36, f"*D* = {D}", bold=True)
        figure.text(x - (34 if D == 64 else 0), 62, "place p ^ (r % 8)" if D == 64 else "place p ^ (r / 2 % 4)", size=16,
                    colour="quiet")
        for r in range(8):
            if D == 64:
                figure.text(x - 10, top + row * r + 18, f"{r}", size=15, colour="quiet", anchor="end")
            places = {swizzled(D, r, p): p for p in range(pieces)}
            if sorted(places) != list(range(pieces)):
                raise Missing(f"swizzle: with D = {D} a piece leaves its row")
            for place, p in places.items():
                mine = p == marked
                figure.rect(x + width * place, top + row * r, width, row, fill="k!" if mine else "k" if place // 4 % 2 == 0 else None,
                            line="rule", round_=0, width=0.75)
                figure.text(x + width * (place + 0.5), top + row * r + 18, f"{p}", size=15, anchor="middle",
                            bold=mine, colour="panel" if mine else "ink")
        figure.rect(x, top, width * pieces, row * 8, line="k", round_=0, width=2)
        if D == 64:
            figure.text(x - 10, top - 10, "row", size=15, colour="quiet", anchor="end")
        figure.text(x, top - 10, "place 0" if D == 64 else "0", size=15, colour="quiet")
        figure.text(x + width * pieces, top - 10, f"{pieces - 1}", size=15, colour="quiet", anchor="end")
    below = top + row * 8 + 30
    figure.rect(MARGIN, below - 14, 16, 16, fill="k!", round_=0)
    figure.text(MARGIN + 26, below, f"piece {marked} of eight rows: what one matrix of an `ldmatrix` reads", size=16)
    return figure


def two_stages():
    """Copies under multiplications, and the barrier between steps."""
    stages = PIPELINED.number("stages", within="struct MmaShape")
    PIPELINED.expect("simt::wait_copies<0>(); __syncthreads();  // K_j, V_j are complete", "fetch(j + 1);")
    tiles = 4
    figure = Figure(
        "Two stages, and one barrier a tile",
        f"Time runs to the right. While the warps multiply with tile j in one of {stages} stages, the copies of tile j + 1 fill the "
        "other. At each barrier the copies of a tile have arrived, and everyone is done with the tile before it, whose "
        "stage is filled next.")
    left, first = 122, 94  # the first: fetch(0), with nothing to multiply yet
    step = (WIDTH - MARGIN - left - first) / tiles
    y = {"multiply": 84, 0: 150, 1: 202}
    height, bottom = 40, 260
    start = [left + first + step * j for j in range(tiles)]
    figure.text(MARGIN, 46, "Time →", colour="quiet")
    for name, words in (("multiply", "all warps"), (0, "stage 0"), (1, "stage 1")):
        figure.text(MARGIN, y[name] + 26, words, bold=True)

    def box(x0, x1, top, words, colour, fill, **line):
        figure.rect(x0, top, x1 - x0, height, fill=fill, **line)
        figure.text((x0 + x1) / 2, top + 26, words, size=16, anchor="middle", colour=colour)

    for j in range(tiles):
        x0, x1 = start[j] + 7, start[j] + step - 7
        before = left if j == 0 else start[j - 1] + 7
        box(x0, x1, y["multiply"], f"tile {j}", "ink", "s", line="s")
        box(x0, x1, y[j % stages], f"{j} is read", "panel", "k!")
        box(before, start[j] - (12 if j == 0 else 7), y[j % stages], f"{j} comes", "ink", "k", line="k", dash="6 4")
        figure.line((start[j], 62), (start[j], bottom), line="wrong", width=2.5)
        figure.text(start[j], 52, "barrier", anchor="middle", size=16, colour="wrong")
    figure.text(MARGIN, bottom + 30, "The barrier before tile *j* closes two hazards:", bold=True)
    figure.text(MARGIN, bottom + 56, "tile *j* has come, from every thread, before anyone reads it;", size=16)
    figure.text(MARGIN, bottom + 80, "everyone is done with tile *j* − 1, whose stage tile *j* + 1 fills now.", size=16)
    return figure


def rows_of_a_warp():
    """How many multiplications a fragment from shared memory serves, with 16 rows a warp and with 32."""
    figure = Figure(
        "What one fragment of keys serves",
        "A warp reads 16 keys by 16 columns of K_j from shared memory, 512 bytes. With 16 rows of queries it serves two "
        "instructions, with 32 rows four: half as many bytes for each multiplication.")
    row, width = 4.6, 128
    for x, rows in ((MARGIN, 16), (WIDTH / 2 + 12, 32)):
        instructions = rows // 16 * 2
        figure.text(x, 36, f"{rows} rows a warp", bold=True)
        top = 122
        figure.rect(x + 74, top - 54, width - 3, 40, fill="k!", round_=2)
        figure.text(x + 74 + width / 2, top - 28, "16 × 16 of K_{j}", anchor="middle", size=16, colour="panel")
        figure.text(x + 74 + width + 10, top - 28, "512 bytes", size=16, colour="k")
        for m in range(rows // 16):
            y = top + m * (16 * row + 8)
            figure.rect(x, y, 66, 16 * row, fill="q", line="q", round_=2)
            figure.text(x + 33, y + 8 * row + 6, "16 rows", anchor="middle", size=15)
            for n in range(2):
                figure.rect(x + 74 + n * width / 2, y, width / 2 - 3, 16 * row, fill="s", line="s", round_=2)
                figure.text(x + 74 + n * width / 2 + width / 4 - 1, y + 8 * row + 6, "mma", anchor="middle", size=16)
        figure.text(x, top + 32 * row + 44, f"{512 // instructions} bytes of K_{{j}} an `mma`", bold=True, colour="k")
    return figure


def shapes():
    """(D, B_r, B_c, shared bytes, resident blocks) of each MmaShape, the fastest of a head dimension first."""
    PIPELINED.expect("static constexpr int B_r = 16 * M * Warps;", "static constexpr int B_c = Keys;",
                     "simt::shared_bytes<simt::f16>(B_r, D) + 2 * simt::shared_bytes<simt::f16>(stages * B_c, D);")
    stages = PIPELINED.number("stages", within="struct MmaShape")
    found = []
    for of_dim in re.findall(r"struct MmaShapes<\d+>\s*: CompiledTiles<(.*?)> {};", PIPELINED.text, re.DOTALL):
        for arguments in re.findall(r"MmaShape<([^>]*)>", of_dim):
            D, warps, m, keys, resident = (int(a) for a in arguments.split(",")[:5])
            found.append((D, 16 * m * warps, keys, (16 * m * warps + 2 * stages * keys) * D * ELEMENT, resident))
    if not found:
        raise Missing(f"{PIPELINED.path} has no MmaShapes; a figure shows them")
    return found


def shape_on(name, D):
    """with_mma_shape(): the shape for a head dimension on a device, and how many blocks of it a multiprocessor's shared
    memory holds, at most as many as its registers."""
    PIPELINED.expect("const bool found = ((std::int64_t(Shape::shared_bytes) <= a.shared_bytes_per_block && "
                     "Shape::resident * (std::int64_t(Shape::shared_bytes) + reserved) <= a.shared_bytes_per_multiprocessor",
                     "if (!found) ((place++ == last ? use(Shape()) : void()), ...);")
    d = device(name)
    mine = [shape for shape in shapes() if shape[0] == D]
    chosen = next((s for s in mine if s[3] <= d.block_bytes_optin and s[4] * (s[3] + d.reserved_bytes) <= d.multiprocessor_bytes),
                  mine[-1])
    return chosen, min(chosen[4], d.multiprocessor_bytes // (chosen[3] + d.reserved_bytes))


def mma_shapes():
    """Shared memory of every shape, and which devices take it."""
    devices = (("rtx4090", "RTX 4090"), ("a100", "A100"), ("h100", "H100"))
    all_shapes = shapes()
    chosen = {name: {shape_on(name, D)[0]: shape_on(name, D)[1] for D in sorted({s[0] for s in all_shapes})} for name, _ in devices}
    largest = max(device(name).block_bytes_optin for name, _ in devices)
    figure = Figure(
        "Tiles and the shared memory that they take",
        "One bar for each shape: bytes of Q_i, of K_j and of V_j, two stages each. Lines mark what a block may have on an RTX 4090, an "
        "A100 and an H100. Right, how many blocks of it a multiprocessor of each of them holds, where it takes this shape: "
        + "; ".join(f"D {D}, {B_r} by {B_c}, {size // KIB} KiB: "
                    + ", ".join(f"{words} {chosen[name][shape]}" for name, words in devices if (shape := (D, B_r, B_c, size, resident)) in chosen[name])
                    for D, B_r, B_c, size, resident in all_shapes) + ".")
    left, right, row, top = 222, 476, 32, 116
    scale = (right - left) / largest
    figure.text(MARGIN, 36, "Shared memory of a block, KiB")
    for x, colour, words in ((MARGIN, "q", "Q_{i}"), (MARGIN + 66, "k", "K_{j}, 2 stages"), (MARGIN + 214, "v", "V_{j}, 2 stages")):
        figure.rect(x, 54, 16, 16, fill=colour, line=colour, round_=0)
        figure.text(x + 24, 68, words, size=16)
    columns = [512, 558, 604]
    figure.text(WIDTH - 14, 36, "blocks on an SM", anchor="end", size=16)
    for x, words in zip(columns, ("4090", "A100", "H100")):
        figure.text(x, 68, words, size=15, anchor="middle", colour="quiet")
    bottom = top + row * len(all_shapes)
    for name, _ in devices:
        x = left + scale * device(name).block_bytes_optin
        figure.line((x, top - 8), (x, bottom), line="wrong", width=1.5, dash="5 4")
        figure.text(x, top - 14, f"{device(name).block_bytes_optin // KIB}", size=15, colour="wrong", anchor="middle")
    stages = PIPELINED.number("stages", within="struct MmaShape")
    for n, shape in enumerate(all_shapes):
        D, B_r, B_c, size, _ = shape
        y = top + row * n
        figure.text(MARGIN, y + 18, f"*D* {D}" if n == 0 or all_shapes[n - 1][0] != D else "", bold=True)
        figure.text(left - 52, y + 18, f"{B_r} × {B_c}", size=16, anchor="end", colour="quiet")
        figure.text(left - 10, y + 18, f"{size // KIB}", size=16, anchor="end", bold=True)
        x = left
        for colour, rows in (("q", B_r), ("k", stages * B_c), ("v", stages * B_c)):
            w = scale * rows * D * ELEMENT
            figure.rect(x, y + 2, w, 22, fill=colour, line=colour, round_=0)
            x += w
        for at, (name, _) in zip(columns, devices):
            blocks = chosen[name].get(shape)
            figure.text(at, y + 18, f"{blocks}" if blocks else "·", anchor="middle", bold=bool(blocks),
                        colour="ink" if blocks else "quiet")
    return figure


FIGURES = {"mma_fragments": mma_fragments, "ldmatrix_banks": ldmatrix_banks, "swizzle": swizzle, "two_stages": two_stages,
           "rows_of_a_warp": rows_of_a_warp, "mma_shapes": mma_shapes}
STAIRS = (("tensor cores", "mma_plain_forward", "bf16 B2 H32 N8192 D64"), ("… fed in time", "mma_forward", "bf16 B2 H32 N8192 D64"))
