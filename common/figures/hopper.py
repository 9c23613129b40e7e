"""Figures of docs/hopper.md: Hopper's instructions, which show no phase's kernel."""

from constants import WARP, Source
from draw import MARGIN, WIDTH, Figure

PAGE = Source("tests/simt/hopper_page_test.cpp")  # the kernels that the page shows
WARPGROUP = Source("common/simt/language/warpgroup_threads.h").number("kWarpgroup")
PIECE = 16    # bytes that a swizzle moves
ELEMENT = 2   # bytes
KIB = 1024


def layout(thread, i):
    """Row and column of element i of a thread's accumulator."""
    Source("common/simt/matrix/warpgroup.h").expect(
        "return thread % kWarpgroup / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;",
        "return i / 4 * 8 + thread % 4 * 2 + i % 2;")
    return thread % WARPGROUP // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2


def place_of(row, piece):
    """Where a piece of a row of a panel lies, with the 128-byte swizzle."""
    Source("common/simt/views/panel_layout.h").expect("(in_panel ^ (in_panel >> 3 & exchanged_bits))")
    Source("common/simt/language/swizzle.h").expect("swizzle_bits(Swizzle::b128) == 0x70")
    address = 128 * row + PIECE * piece
    return ((address ^ (address >> 3 & 0x70)) - 128 * row) // PIECE


def box(figure, x0, x1, top, height, words, colour="ink", **shape):
    figure.rect(x0, top, x1 - x0, height, **shape)
    for n, line in enumerate(words):
        y = top + height / 2 + 6 + 20 * (n - (len(words) - 1) / 2)
        figure.text((x0 + x1) / 2, y, line, size=15, anchor="middle", colour=colour)


def hopper_accumulator():
    """Who holds what of D."""
    shown, columns = 38, 16
    places = {layout(thread, i): (thread, i) for thread in range(WARPGROUP) for i in range(columns // 2)}
    if len(places) != 64 * columns:
        raise ValueError("hopper_accumulator: two threads hold one element")
    warp, lane = shown // WARP, shown % WARP
    figure = Figure(
        "Who holds what of a warpgroup's accumulator",
        f"Left, 64 rows in four bands of 16, one for each warp. Right, the first {columns} columns of warp {warp}, with the lane "
        f"that holds each pair of elements: the same pattern as an accumulator of phase 6. Thread {shown} is lane {lane} of warp {warp}; "
        "its elements are listed below.")
    top, row = 96, 21
    left, band = MARGIN, 16 * row / 4
    figure.text(left, 36, "64 rows, four warps", bold=True, colour="s")
    figure.text(left, 62, "and *N* columns", size=15, colour="quiet")
    for w in range(4):
        mine = w == warp
        figure.rect(left, top + band * w, 190, band, fill="s" if mine else None, line="s" if mine else "rule", round_=0)
        figure.text(left + 95, top + band * w + 36, f"warp {w}", anchor="middle", bold=mine)
        figure.text(left + 95, top + band * w + 60, f"rows {16 * w} to {16 * w + 15}", size=15, colour="quiet", anchor="middle")
    cell = 40
    right = WIDTH - MARGIN - 8 * cell
    figure.text(right, 36, f"Warp {warp}: the lane of each pair", bold=True, colour="s")
    for n in range(2):
        figure.text(right + cell * (2 + 4 * n), top - 10, f"columns {8 * n} to {8 * n + 7}", size=15, colour="quiet", anchor="middle")
    for r in range(16):
        for pair in range(8):
            thread, _ = places[16 * warp + r, 2 * pair]
            mine = thread == shown
            figure.rect(right + cell * pair, top + row * r, cell, row,
                        fill="s!" if mine else "s" if (pair // 4 + r // 8) % 2 == 0 else None, line="rule", round_=0, width=0.75)
            figure.text(right + cell * (pair + 0.5), top + row * r + 16, f"{thread % WARP}", size=15, anchor="middle", bold=mine,
                        colour="panel" if mine else "ink")
    figure.rect(right, top, 8 * cell, 16 * row, line="s", round_=0, width=2)
    figure.line((right + 4 * cell, top), (right + 4 * cell, top + 16 * row), line="s", width=2)
    figure.line((right, top + 8 * row), (right + 8 * cell, top + 8 * row), line="s", width=1.5, dash="5 4")
    figure.line((left + 190, top + band * warp), (right, top), line="s", width=1, dash="4 4")
    figure.line((left + 190, top + band * (warp + 1)), (right, top + 16 * row), line="s", width=1, dash="4 4")
    below = top + 16 * row + 32
    figure.text(MARGIN, below, f"Thread {shown}, lane {lane} of warp {warp}, holds:", bold=True)
    for n in range(4):
        r, c = layout(shown, 2 * n)
        x = MARGIN + (0 if n < 2 else 302)
        y = below + 28 + 26 * (n % 2)
        figure.text(x, y, f"`S[{2 * n}]`, `S[{2 * n + 1}]`", size=15, colour="s")
        figure.text(x + 116, y, f"row {r}, columns {c}, {c + 1}", size=15)
    return figure


def hopper_ring():
    """Stages over time, with the lanes of producer and consumers."""
    PAGE.expect("empty[at.stage].wait(at.parity ^ 1);", "full[at.stage].wait(at.parity);",
                "if (elect_one()) empty[at.stage].arrive();")
    stages, tiles, copy, product = 2, 5, 1.4, 1.5
    asked, came, begun, ended = [], [], [], []
    for j in range(tiles):
        asked.append(ended[j - stages] if j >= stages else 0.0)
        came.append(max(asked[j], came[-1] if j else 0.0) + copy)
        begun.append(max(came[j], ended[-1] if j else 0.0))
        ended.append(begun[j] + product)
    figure = Figure(
        "A ring of two stages, over time",
        "Time runs to the right. The producer asks for tiles 0 and 1 at once, and for each later tile when its stage has been "
        "released. A full barrier opens when a tile has come, an empty barrier when the consumers have multiplied with "
        "it. Tiles 0 and 1 belong to phase 0 of their barriers, tiles 2 and 3 to phase 1, tile 4 to phase 2, whose parity is 0 again.")
    left = 128
    unit = (WIDTH - MARGIN - left) / ended[-1]

    def at(time):
        return left + unit * time

    height = 44
    y = {"producer": 74, 0: 150, 1: 214, "consumer": 290}
    figure.text(MARGIN, 40, "Time →", colour="quiet")
    for name, words in (("producer", "producer"), (0, "stage 0"), (1, "stage 1"), ("consumer", "consumers")):
        figure.text(MARGIN, y[name] + 28, words, bold=True)
    # The producer stands still between what it asks for.
    points = sorted(set(asked))
    for a, b in zip(points, points[1:]):
        box(figure, at(a) + 9, at(b) - 9, y["producer"] + 8, 28, ["waits"], colour="quiet", line="rule", dash="3 4")
    for t in points:
        figure.line((at(t), y["producer"]), (at(t), y["producer"] + height), line="plain", width=4)
    for t in points:
        for j in (j for j in range(tiles) if asked[j] == t):
            figure.arrow((at(t), y["producer"] + height), (at(t) + 8, y[j % stages] - 2), line="plain", width=2)
    for j in range(tiles):
        lane = y[j % stages]
        box(figure, at(asked[j]) + 2, at(came[j]) - 2, lane, height, [f"{j} comes"], fill="k", line="k", dash="6 4")
        if begun[j] - came[j] > 0.15:
            figure.rect(at(came[j]) + 1, lane, at(begun[j]) - at(came[j]) - 2, height, fill="k", line="k")
        box(figure, at(begun[j]) + 2, at(ended[j]) - 2, lane, height, [f"{j} is read"], colour="panel", fill="k!", line="k")
        box(figure, at(begun[j]) + 2, at(ended[j]) - 2, y["consumer"], 50, [f"tile {j}", f"parity {j // stages % 2}"],
            fill="s", line="s")
        figure.line((at(begun[j]), lane + height), (at(begun[j]), y["consumer"]), line="wrong", width=2.5)
        if j + stages < tiles:
            figure.line((at(ended[j]), y["producer"] + height), (at(ended[j]), y["consumer"]), line="plain", width=1, dash="2 4")
    below = y["consumer"] + 84
    figure.line((MARGIN + 8, below - 14), (MARGIN + 8, below + 4), line="wrong", width=2.5)
    figure.text(MARGIN + 24, below, "the full barrier opens: all bytes of the tile are there", size=16)
    figure.line((MARGIN + 8, below + 14), (MARGIN + 8, below + 32), line="plain", width=4)
    figure.text(MARGIN + 24, below + 28, "the empty barrier opens: the producer asks for the next tile", size=16)
    return figure


def hopper_box():
    """A box that hangs over a tensor's end."""
    rows, columns, side = 100, 96, 64
    first_row, first_column = 64, 64
    figure = Figure(
        "A box at a tensor's end",
        f"A tensor of {rows} rows and {columns} columns, and a box of {side} x {side} elements at ({first_row}, {first_column}). "
        "What lies outside of the tensor arrives as zeros. All bytes of the box are reported to the barrier.")
    scale, x, y = 2.1, MARGIN + 6, 76
    figure.text(MARGIN, 40, f"*K*: {rows} rows, {columns} columns", bold=True, colour="k")
    figure.rect(x, y, columns * scale, rows * scale, fill="k", line="k", round_=0)
    bx, by = x + first_column * scale, y + first_row * scale
    inside_w, inside_h = (columns - first_column) * scale, (rows - first_row) * scale
    figure.rect(bx, by, inside_w, inside_h, fill="k!", round_=0)
    figure.rect(bx, by, side * scale, side * scale, line="plain", width=2.5, round_=0, dash="7 4")
    figure.text(bx + 4, by - 10, f"({first_row}, {first_column})", size=15)
    figure.text(x, by + side * scale + 26, "the box", size=16)
    figure.line((x + 62, by + side * scale + 21), (bx + 2, by + side * scale - 4), line="plain", width=1.5)
    tile, left, top = 176, WIDTH - MARGIN - 176, 118
    figure.text(WIDTH - MARGIN, 40, "the tile in shared memory", anchor="end", bold=True)
    figure.rect(left, top, tile, tile, fill="plain", line="plain", round_=0)
    part_w, part_h = tile * (columns - first_column) / side, tile * (rows - first_row) / side
    figure.rect(left, top, part_w, part_h, fill="k!", round_=0)
    figure.text(left + part_w + (tile - part_w) / 2, top + part_h / 2 + 6, "zeros", anchor="middle")
    figure.text(left + tile / 2, top + part_h + (tile - part_h) / 2 + 6, "zeros", anchor="middle")
    figure.arrow((bx + side * scale + 12, top + 88), (left - 14, top + 88), line="plain", width=3)
    figure.text(left, top + tile + 30, f"{side * side * ELEMENT} bytes, all of it,", size=16)
    figure.text(left, top + tile + 54, "go to the barrier", size=16)
    return figure


def hopper_panels():
    """Where a tile's pieces lie, and what a descriptor says of it."""
    Source("common/simt/matrix/wgmma_cuda.h").expect(
        "bits 0 to 13 the address, 16 to 29 the distance of panels",
        "32 to 45 that of groups of eight rows; bits 62 and 63 the swizzle")
    rows, shown = 64, 16
    panel_bytes, group_bytes = 128 * rows, 8 * 128
    figure = Figure(
        "Two panels of a tile, and a descriptor of it",
        f"A tile of {rows} rows and 128 columns of 16 bits: two panels of 64 columns, {panel_bytes} bytes apart. A row of a panel has eight "
        "pieces of 16 bytes, and piece p of row r lies in place p XOR r mod 8. The pieces of k 0 to 15, numbers 0 and 1, are marked. Groups "
        f"of eight rows are {group_bytes} bytes apart. Below, the 64 bits of a descriptor.")
    cell, row, top = 29, 19, 92
    first, second = MARGIN + 62, WIDTH - MARGIN - 8 * 29
    for n, left in enumerate((first, second)):
        figure.text(left, 36, f"panel {n}, from byte {panel_bytes * n}", bold=True, size=16, colour="k")
        figure.text(left, 60, f"columns {64 * n} to {64 * n + 63}", size=15, colour="quiet")
        for r in range(shown):
            places = {place_of(r, p): p for p in range(8)}
            if sorted(places) != list(range(8)):
                raise ValueError("hopper_panels: a piece leaves its row")
            for place, p in places.items():
                mine = p < 2 and n == 0
                figure.rect(left + cell * place, top + row * r, cell, row, fill="k!" if mine else "k" if r // 8 % 2 == 0 else None,
                            line="rule", round_=0, width=0.75)
                figure.text(left + cell * (place + 0.5), top + row * r + 15, f"{p}", size=15, anchor="middle",
                            colour="panel" if mine else "ink", bold=mine)
        for group in range(shown // 8):
            figure.rect(left, top + row * 8 * group, cell * 8, row * 8, line="k", round_=0, width=2)
        figure.text(left + 4 * cell, top + row * shown + 18, "…", anchor="middle", size=21)
    for r in (0, 1, 8):
        figure.text(first - 10, top + row * r + 15, f"{128 * r}", size=15, colour="quiet", anchor="end")
    figure.text(first - 10, top - 8, "byte", size=15, colour="quiet", anchor="end")
    between = (first + 8 * cell + second) / 2
    figure.arrow((first - 14, top + 40), (first - 14, top + row * 8 - 2), line="plain", width=2)
    figure.text(first - 24, top + 84, "stride", size=15, anchor="end")
    figure.arrow((first + 8 * cell + 4, top + row * 4), (second - 4, top + row * 4), line="plain", width=2)
    figure.text(between, top + row * shown + 48, f"panel to panel: {panel_bytes} bytes", size=15, anchor="middle")
    y = top + row * shown + 84
    figure.text(MARGIN, y, "The descriptor, bit 0 on the left:", bold=True, size=16)
    bit, bar = (WIDTH - 2 * MARGIN) / 64, y + 42
    fields = ((0, 14, "address", "k"), (16, 30, "panels", "plain"), (32, 46, "stride", "plain"), (49, 52, "", "plain"), (62, 64, "", "k"))
    figure.rect(MARGIN, bar, 64 * bit, 30, line="rule", round_=0)
    for low, high, words, colour in fields:
        figure.rect(MARGIN + bit * low, bar, bit * (high - low), 30, fill=colour, line=colour, round_=0)
        if words:
            figure.text(MARGIN + bit * (low + high) / 2, bar + 20, words, size=15, anchor="middle")
    for n in (0, 16, 32, 49):
        figure.text(MARGIN + bit * n, bar - 7, f"{n}", size=15, colour="quiet")
    figure.text(MARGIN + bit * 64, bar - 7, "62", size=15, colour="quiet", anchor="end")
    figure.text(MARGIN, bar + 54, "each of the three in units of 16 bytes", size=15, colour="quiet")
    figure.text(WIDTH - MARGIN, bar + 54, "at 49: base offset; at 62: swizzle", size=15, colour="quiet", anchor="end")
    return figure


def hopper_proxies():
    """Two ways to shared memory."""
    figure = Figure(
        "Two proxies to one memory",
        "Threads reach shared memory through the generic proxy, the tensor cores' wgmma and TMA through the async proxy. What a "
        "thread has stored is not seen through the async proxy until it has called show_to_async(). In the other direction a wait is "
        "enough: at the mbarrier for what TMA brought.")
    top, height = 64, 150
    figure.text(MARGIN, 40, "Two ways to the same bytes", bold=True)
    box(figure, MARGIN, 178, top, height, ["threads:", "loads, stores,", "ldmatrix"], fill="plain", line="plain")
    box(figure, WIDTH - 178, WIDTH - MARGIN, top, height, ["wgmma,", "TMA"], fill="plain", line="plain", width=3)
    middle = WIDTH / 2
    box(figure, middle - 66, middle + 66, top, height, ["shared", "memory"], fill="k", line="k")
    for x0, x1, colour, words in ((180, middle - 68, "plain", "generic"), (WIDTH - 180, middle + 68, "plain", "async")):
        figure.arrow((x0, top + 56), (x1, top + 56), line=colour, width=3)
        figure.arrow((x1, top + 104), (x0, top + 104), line=colour, width=3)
        figure.text((x0 + x1) / 2, top + 38, words, size=15, anchor="middle")
        figure.text((x0 + x1) / 2, top + 132, "proxy", size=15, anchor="middle")
    y = top + height + 40
    figure.text(MARGIN, y, "One has written", size=15, colour="quiet")
    figure.text(182, y, "another is to read", size=15, colour="quiet")
    figure.text(350, y, "between them", size=15, colour="quiet")
    lines = (("a thread", "a thread", "a barrier", "plain"),
             ("TMA", "a thread, `wgmma`", "a wait at its mbarrier", "plain"),
             ("a thread", "`wgmma`, TMA", "`show_to_async()`, a barrier", "wrong"))
    for n, (who, whom, what, colour) in enumerate(lines):
        at = y + 14 + 34 * n
        figure.rect(MARGIN, at, WIDTH - 2 * MARGIN, 30, fill=colour, round_=3)
        for x, words in ((MARGIN + 10, who), (182, whom), (350, what)):
            figure.text(x, at + 21, words, size=16 if x < 300 else 15)
    return figure


def hopper_registers():
    """The pool before and after setmaxnreg."""
    pool = Source("common/simt/sync/register_pool.h").number("kRegisters")
    step = Source("common/simt/sync/register_pool.h").number("kStep")
    groups = 3
    PAGE.expect("release_registers<24>();")
    share = pool // (groups * WARPGROUP) // step * step
    after = (24, 240, 240)
    if sum(after) != groups * share:
        raise ValueError("hopper_registers: 24, 240 and 240 are no longer the share of three")
    figure = Figure(
        "Registers of a block of 384 threads, before and after",
        f"A block of three warpgroups starts with {share} registers for each thread, {share * groups * WARPGROUP} in all. The producer "
        f"releases all but {after[0]} of each thread's, and each consumer claims {after[1]}: {sum(after) * WARPGROUP} again.")
    left, unit = 154, (WIDTH - MARGIN - 154) / (groups * share)
    names = ("producer", "consumer", "consumer")
    colours = ("plain", "s", "s")
    for n, (words, counts) in enumerate((("at the start", (share,) * groups), ("handed over", after))):
        y = 74 + 118 * n
        figure.text(MARGIN, y + 34, words, bold=True)
        x = left
        for name, colour, count in zip(names, colours, counts):
            wide = unit * count
            figure.rect(x + 1, y, wide - 2, 56, fill=colour, line=colour)
            if wide > 80:
                figure.text(x + wide / 2, y + 24, name, size=15, anchor="middle")
                figure.text(x + wide / 2, y + 45, f"{count}", anchor="middle", bold=True)
            else:
                figure.text(x + wide / 2, y - 10, f"{count}", anchor="middle", bold=True)
            x += wide
    figure.text(left, 46, f"{groups} · {WARPGROUP} threads, registers of each", size=16, colour="quiet")
    figure.arrow((left + unit * share, 134), (left + unit * after[0] + 6, 188), line="plain", width=2.5)
    figure.text(left + unit * share + 10, 166, f"{share - after[0]} of each thread are released", size=15)
    y = 74 + 118 + 96
    figure.text(MARGIN, y, f"{groups} · {share} = {groups * share} = {after[0]} + {after[1]} + {after[2]}", size=16)
    figure.text(MARGIN, y + 26, f"times {WARPGROUP} threads: {groups * share * WARPGROUP} of the multiprocessor's {pool}", size=16)
    return figure


def hopper_turns():
    """Two warpgroups that take turns."""
    PAGE.expect("sync_threads(1 + me, 256);", "arrive_threads(1 + other, 256);")
    figure = Figure(
        "Two warpgroups take turns",
        "Time runs to the right. While one warpgroup's products run on the tensor cores, the other computes its softmax. Each waits at "
        "a barrier of its own for its turn, and arrives at the other's when it has asked for its products.")
    left, top, height = 152, 74, 46
    unit = (WIDTH - MARGIN - left) / 5
    figure.text(MARGIN, 40, "Time →", colour="quiet")
    for w in range(2):
        y = top + 96 * w
        figure.text(MARGIN, y + 20, "warpgroup", bold=True)
        figure.text(MARGIN, y + 40, f"{w}", bold=True)
        for n in range(5):
            works = n % 2 == w
            x0, x1 = left + unit * n + 3, left + unit * (n + 1) - 3
            if n < w:
                box(figure, x0, x1, y, height, ["waits"], colour="quiet", line="rule", dash="3 4")
            else:
                box(figure, x0, x1, y, height, ["products" if works else "softmax"], fill="s" if works else "state",
                    line="s" if works else "state")
    for n in range(1, 5):
        x = left + unit * n
        down = n % 2 == 1
        y0, y1 = (top + height, top + 96) if down else (top + 96, top + height)
        figure.arrow((x, y0), (x, y1), line="wrong", width=2.5)
        figure.text(x + 9, top + height + 31, f"{2 if down else 1}", size=15, colour="wrong", bold=True)
    figure.text(MARGIN, top + 96 + height + 36, "An arrow: `arrive_threads(n, 256)`, for which `sync_threads(n, 256)` waits", size=15)
    return figure


FIGURES = {"hopper_accumulator": hopper_accumulator, "hopper_box": hopper_box, "hopper_panels": hopper_panels,
           "hopper_proxies": hopper_proxies, "hopper_registers": hopper_registers, "hopper_ring": hopper_ring,
           "hopper_turns": hopper_turns}
