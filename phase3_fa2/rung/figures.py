"""Figures of phase 3: FlashAttention-2, also where the primer and the page of the CPU machine take its kernel for an example."""

import json

from banks import draw_banks, passes
from constants import BANK_BYTES, BANKS, LANES_PER_ROW, ROOT, WARP, Source
from draw import MARGIN, WIDTH, Figure
from loops import LEFT, RIGHT, ROW, Grid, Problem, draw_grid, draw_traffic

FA2 = Source("phase3_fa2/fa2.cuh")


def fa2_tiles(head_dim):
    return tuple(FA2.number(name, within="struct Fa2Tiles", D=head_dim) for name in ("B_r", "B_c"))


def tiles_bytes(head_dim, element):
    """fa2_shared_bytes(): what tiles of fixed size take."""
    FA2.expect(
        "return simt::shared_bytes<T>(B_r, D + pad) + 2 * simt::shared_bytes<T>(B_c, D + pad) + "
        "simt::shared_bytes<float>(B_r, B_c + 4);")
    B_r, B_c = fa2_tiles(head_dim)
    pitch = FA2.number("pitch", D=head_dim, element_bytes=element)
    score_pitch = FA2.found(r'arena\.tile<float, B_r, B_c, ([^>]+)>\("P_ij"\)', B_c=B_c)
    return (B_r + 2 * B_c) * pitch * element + B_r * score_pitch * 4


def fa2_loops():
    problem = Problem()
    grid = Grid(problem, *fa2_tiles(problem.head_dim))
    progress = [10, 12, 9, 11, 13, 10, 12, 9]
    if len(progress) != grid.rows:
        raise ValueError(f"fa2_loops draws {len(progress)} query tiles; there are {grid.rows} now")
    figure = Figure(
        "FlashAttention-2: query tiles outside, key tiles inside",
        f"The same scores as {grid.rows} by {grid.columns} tiles. Each row of tiles belongs to a block of its own; "
        "the blocks run at the same time, and each walks along the keys. O is written once, at the end of the row. "
        f"Bars below: Q and O move once, K and V are read {grid.rows} times.")
    figure.text(MARGIN, 36, f"Each Q_i stays with its block, K and V go by: {grid.rows} blocks")
    draw_grid(figure, grid, progress, {(i, progress[i]) for i in range(grid.rows)}, rows_now=range(grid.rows))
    for i in range(grid.rows):
        y = grid.y(i) + ROW / 2
        figure.arrow((LEFT + 5, y), (grid.x(progress[i]) - 2, y), line="s", width=2)
        figure.text(LEFT - 42, y + 5, f"block {i}", size=15, colour="quiet", anchor="end")
        figure.arrow((RIGHT + 52, y), (RIGHT + 84, y), line="o", width=2)
    figure.text(RIGHT + 90, grid.y(grid.rows // 2) - 6, "out once,", size=15, colour="o")
    figure.text(RIGHT + 90, grid.y(grid.rows // 2) + 12, "at the end", size=15, colour="o")

    tensor, keys = problem.kib(problem.queries), problem.kib(problem.keys)
    draw_traffic(figure, grid.bottom + 62, [
        ("K", "k", grid.rows * keys, 0, f"{grid.rows} times"),
        ("V", "v", grid.rows * keys, 0, f"{grid.rows} times"),
        ("Q", "q", tensor, 0, "once"),
        ("O, LSE", "o", 0, problem.kib(problem.queries, problem.head_dim + 1), "once")])
    return figure


def rows_over_warps():
    B_r, B_c = fa2_tiles(64)
    warps = FA2.number("kFa2Threads") // WARP
    rows, step = B_r // warps, WARP // LANES_PER_ROW
    figure = Figure(
        "Which rows of the scores a warp owns, and which scores a thread",
        f"Left, a tile of {B_r} rows and {B_c} columns in {warps} bands, one for each warp. Right, the {rows} rows "
        f"of one warp: row r belongs to {LANES_PER_ROW} lanes, and every {step}th row to the same ones. The scores "
        f"of lane 0 are marked: every {step}th row, every {LANES_PER_ROW}th column.")
    top, row, left, cell, small = 70, 18, 272, 10.75, 76
    height, shown = rows * row, 0
    figure.text(MARGIN, 34, "A score tile")
    for w in range(warps):
        band = height / warps
        figure.rect(MARGIN, top + band * w, small, band, fill="s" if w == shown else None, line="s", round_=0)
        figure.text(MARGIN + small / 2, top + band * (w + 0.5) + 6, f"warp {w}", anchor="middle",
                    colour="ink" if w == shown else "quiet")
    figure.text(MARGIN, top + height + 24, f"{B_r} × {B_c}", colour="quiet")
    figure.polygon([(MARGIN + small, top), (left - 84, top), (left - 84, top + height),
                    (MARGIN + small, top + height / warps)], fill="s", opacity=0.4)

    figure.text(left - 84, 34, f"One warp: {rows} rows, {LANES_PER_ROW} lanes to a row")
    for column in range(0, B_c + 1, LANES_PER_ROW):
        if column < B_c:
            figure.text(left + cell * (column + 0.5), top - 8, f"{column}", size=15, colour="quiet", anchor="middle")
    for r in range(rows):
        first = r % step * LANES_PER_ROW
        mine = first == 0
        figure.text(left - 8, top + row * r + 14, f"lanes {first}–{first + LANES_PER_ROW - 1}", size=15, anchor="end",
                    colour="s" if mine else "quiet")
        if mine:
            figure.rect(left, top + row * r, cell * B_c, row, fill="s", round_=0)
            for column in range(0, B_c, LANES_PER_ROW):
                figure.rect(left + cell * column, top + row * r, cell, row, fill="s!", round_=0)
    grid = "".join(f"M{left} {top + row * r}H{left + cell * B_c:g}" for r in range(rows + 1))
    grid += "".join(f"M{left + cell * c:g} {top}V{top + height}" for c in range(B_c + 1))
    figure.path(grid, line="rule", width=0.75)

    bottom = top + height + 30
    figure.rect(left, bottom - 13, 14, 15, fill="s!", round_=0)
    figure.text(left + 22, bottom, f"lane 0: {rows // step} × {B_c // LANES_PER_ROW} scores, in registers")
    figure.rect(left, bottom + 15, 14, 15, fill="s", line="s", round_=0, width=1)
    shuffles = LANES_PER_ROW.bit_length() - 1
    figure.text(left + 22, bottom + 28, f"its rows: maximum in {shuffles} shuffles")
    return figure


def register_tiling():
    D, lanes = 64, LANES_PER_ROW
    B_r, B_c = fa2_tiles(D)
    rows = B_r // (FA2.number("kFa2Threads") // lanes)
    columns = B_c // lanes
    sizes = [(1, 1), (2, 2), (rows, columns), (2 * rows, 2 * columns)]
    figure = Figure(
        "Register tiling",
        "A thread computes a rectangle of scores. For one element of the dot products it loads a number of Q_i for each row and "
        "a number of K_j for each column, and multiplies each with each. "
        + "; ".join(f"{r} by {c}: {r + c} loads for {r * c} multiply-adds" for r, c in sizes) + ".")
    figure.text(MARGIN, 34, "A thread's scores, and what it loads for one step along *d*")
    cell, gap, floor = 22, 34, 34 + 44 + 22 * (sizes[-1][0] + 1)
    free = WIDTH - 2 * MARGIN - sum(cell * (c + 1) + 6 for _, c in sizes)
    gap = free / (len(sizes) - 1)
    x = MARGIN
    for r, c in sizes:
        left, top = x + cell + 6, floor - cell * r
        for i in range(r):
            figure.rect(x, top + cell * i, cell - 3, cell - 3, fill="q", line="q", round_=2)
        for j in range(c):
            figure.rect(left + cell * j, top - cell - 6, cell - 3, cell - 3, fill="k", line="k", round_=2)
        for i in range(r):
            for j in range(c):
                figure.rect(left + cell * j, top + cell * i, cell - 3, cell - 3, fill="s", line="s", round_=2, width=1)
        x += cell * (c + 1) + 6 + gap
    top = floor + 40
    for at, head in ((MARGIN, "rectangle"), (MARGIN + 180, "loads"), (MARGIN + 300, "multiply-adds"), (WIDTH - MARGIN, "loads per multiply-add")):
        figure.text(at, top, head, size=15, colour="quiet", anchor="end" if at == WIDTH - MARGIN else "start")
    for n, (r, c) in enumerate(sizes):
        y, chapter = top + 26 * (n + 1), (r, c) == (rows, columns)
        ratio = (r + c) / (r * c)
        for at, words in ((MARGIN, f"{r} × {c}" + (", this kernel" if chapter else "")), (MARGIN + 180, f"{r + c}"), (MARGIN + 300, f"{r * c}"),
                          (WIDTH - MARGIN, f"{ratio:g}" if ratio >= 1 else f"1/{1 / ratio:g}")):
            figure.text(at, y, words, bold=chapter, anchor="end" if at == WIDTH - MARGIN else "start")
    y = top + 26 * (len(sizes) + 1) + 14
    for at, fill, words in ((MARGIN, "q", "of Q_i, loaded"), (MARGIN + 200, "k", "of K_j, loaded"), (MARGIN + 400, "s", "sums in registers")):
        figure.rect(at, y - 14, 16, 16, fill=fill, line=fill, round_=2)
        figure.text(at + 24, y, words, size=16)
    return figure


def padding():
    head_dim, element = 64, 4
    pitch = FA2.number("pitch", D=head_dim, element_bytes=element)
    words = Source("common/simt/counters/request_cost.cpp").number("kWidestAccess") // BANK_BYTES
    figure = Figure(
        "Why rows of K_j are padded by 16 bytes",
        f"{LANES_PER_ROW} lanes read 16 bytes each, from {LANES_PER_ROW} rows of K_j. With rows {head_dim} floats "
        f"apart all of them want the same {words} banks and take turns. With rows {pitch} floats apart they want "
        "different ones.")
    left, row = 92, 18
    cell = (WIDTH - MARGIN - left) / BANKS
    figure.text(MARGIN, 34, f"{LANES_PER_ROW} lanes read {words * BANK_BYTES} bytes each, of {LANES_PER_ROW} rows of "
                f"K_j (*D* = {head_dim}, float32)")
    top = 104
    for apart, colour, words_of_pitch in ((head_dim, "wrong", f"Rows {head_dim} floats apart"),
                                          (pitch, "k", f"Padded: rows {pitch} floats apart")):
        firsts = [apart * lane for lane in range(LANES_PER_ROW)]
        turns = passes(firsts, words)
        figure.text(MARGIN, top - 34, words_of_pitch, bold=True)
        figure.text(WIDTH - MARGIN, top - 34, f"{turns} passes" if turns > 1 else "1 pass", anchor="end", bold=True,
                    colour=colour)
        figure.text(left - 10, top - 8, "bank", size=15, colour="quiet", anchor="end")
        for lane in range(LANES_PER_ROW):
            figure.text(left - 10, top + row * lane + 14, f"lane {lane}", size=15, colour="quiet", anchor="end")
        draw_banks(figure, left, top, cell, row, firsts, words, colour)
        top += row * LANES_PER_ROW + 84
    return figure


def tour_queries():
    """The shape of q in the tour: [B, Hq, Sq, D]."""
    tour = json.loads((ROOT / "docs/results/h200/tour.json").read_text())
    return next(phase["shapes"]["q"] for phase in tour["phases"] if phase["kernel"] == "fa2_forward")


def gpu():
    _, heads, length, head_dim = tour_queries()
    tiles = -(-length // fa2_tiles(head_dim)[0])
    threads = FA2.number("kFa2Threads")
    warps = threads // WARP
    figure = Figure(
        "Grid, block, warp, lane",
        f"A grid of {heads * tiles} blocks; one block enlarged, with {warps} warps and a shared memory; one warp "
        f"enlarged, with {WARP} lanes; one lane with registers of its own.")
    wide, words = 384, MARGIN + 384 + 28

    def explain(y, name, *lines):
        figure.text(words, y, name, bold=True)
        for n, line in enumerate(lines):
            figure.text(words, y + 24 * (n + 1), line, size=16, colour="quiet")

    def enlarge(left, right, y, to_left, to_right, to_y):
        figure.polygon([(left, y), (right, y), (to_right, to_y), (to_left, to_y)], fill="plain", opacity=0.6)

    cell, row, top = wide / heads, 26, 28
    explain(top + 16, "grid", f"{heads * tiles} blocks, in any", "order, on all", "multiprocessors")
    for t in range(tiles):
        for h in range(heads):
            enlarged = (h, t) == (2, tiles - 1)
            figure.rect(MARGIN + cell * h, top + row * t, cell - 5, row - 5, fill="plain!" if enlarged else "plain",
                        line="plain")

    block = top + row * tiles + 40
    enlarge(MARGIN + cell * 2, MARGIN + cell * 3 - 5, top + row * tiles - 4, MARGIN, MARGIN + wide, block)
    band, inside = 24, wide - 28
    height = band * warps + 62
    figure.rect(MARGIN, block, wide, height, fill="panel", line="plain", round_=6)
    explain(block + 22, "block", f"{threads} threads = {warps} warps,", "on one multiprocessor,",
            "with one shared", "memory")
    figure.rect(MARGIN + 14, block + 14, inside, 30, fill="plain", line="plain")
    figure.text(MARGIN + wide / 2, block + 34, "shared memory", anchor="middle", size=16)
    first_warp = block + 56
    for w in range(warps):
        for k in range(WARP):
            figure.rect(MARGIN + 14 + inside / WARP * k, first_warp + band * w, inside / WARP - 2, band - 7,
                        fill="plain!" if w == warps - 1 else "plain", line="plain", round_=1, width=1)

    warp, lane, chosen = block + height + 40, wide / WARP, 5
    enlarge(MARGIN + 14, MARGIN + 12 + inside, first_warp + band * warps - 6, MARGIN, MARGIN + wide - 2, warp)
    for k in range(WARP):
        figure.rect(MARGIN + lane * k, warp, lane - 2, 30, fill="plain!" if k == chosen else "plain", line="plain",
                    round_=1, width=1)
    explain(warp + 8, "warp", f"{WARP} lanes, one", "instruction for all")
    thread = warp + 94
    enlarge(MARGIN + lane * chosen, MARGIN + lane * (chosen + 1) - 2, warp + 31, MARGIN, MARGIN + 180, thread)
    figure.rect(MARGIN, thread, 180, 34, fill="plain", line="plain")
    figure.text(MARGIN + 90, thread + 22, "registers", anchor="middle", size=16)
    explain(thread + 8, "lane", "a thread, with registers", "of its own")
    return figure


def machine():
    threads, D, key, column = FA2.number("kFa2Threads"), 32, 12, 24
    Source("common/attention/copy_tile.cuh").expect("r = i / per_row, c = i % per_row * simt::kVectorWidth<T>;")
    Source("common/attention/row_tile.cuh").expect("return (vector * Lanes + lane) * kRowVector<T, D, Lanes>;")
    vector = Source("common/simt/language/vector.h").number("kVectorWidth", element_bytes=4)
    writer = (key * D + column) // vector % threads       # copy_tile: neighbouring threads copy neighbouring vectors
    reader = writer + (column // vector - writer) % LANES_PER_ROW  # a thread that owns the column, output_column
    if reader == writer:
        reader += LANES_PER_ROW
    figure = Figure(
        "How the CPU machine sees a race",
        f"A worker runs the {threads} threads of a block in turn, each to the next barrier. A shadow remembers for "
        f"every element who wrote it and in which interval between barriers. Thread {writer} writes an element and "
        f"thread {reader} reads it: in the same interval that is a race, after a barrier it is not.")
    whole = WIDTH - 2 * MARGIN
    figure.text(MARGIN, 34, "One worker runs a block's threads in turn, each to the next barrier")

    def turns(x, w, y, interval, marked):
        """The threads of one interval; `marked` maps some to the colour of what they do. Returns where those lie."""
        names = ["0", "1", "…", str(writer), "…", str(reader), "…", str(threads - 1)]
        units = [0.7, 0.7, 0.6, 1, 0.6, 1, 0.6, 1]
        at, where = x, {}
        for name, unit in zip(names, units):
            width = w * unit / sum(units)
            colour = marked.get(name)
            figure.rect(at, y, width - 3, 34, fill=f"{colour}" if colour else "plain", line=colour, round_=3, width=2)
            figure.text(at + width / 2 - 1, y + 23, name, size=16, anchor="middle",
                        colour="ink" if colour else "quiet", bold=bool(colour))
            where[name] = at + width / 2 - 1
            at += width
        figure.text(x + w / 2, y - 9, f"interval {interval}", size=16, colour="quiet", anchor="middle")
        return where

    half = (whole - 40) / 2
    w, r = str(writer), str(reader)
    for y, title, barrier in ((64, "No barrier between", False), (306, "A barrier between", True)):
        figure.text(MARGIN, y + 6, title, bold=True, colour="ink" if barrier else "wrong")
        y += 46
        if barrier:
            write = turns(MARGIN, half, y, 7, {w: "v"})[w]
            read = turns(MARGIN + half + 40, half, y, 8, {r: "v"})[r]
            middle = MARGIN + half + 20 - 1.5
            figure.line((middle, y - 22), (middle, y + 46), line="quiet", width=2.5, dash="8 5")
            figure.text(middle, y + 66, "`__syncthreads()`", size=15, colour="quiet", anchor="middle")
        else:
            where = turns(MARGIN, whole, y, 7, {w: "v", r: "wrong"})
            write, read = where[w], where[r]
        cell = y + 92
        figure.arrow((write, y + 38), (write, cell - 4), line="v")
        figure.arrow((read, cell - 4), (read, y + 38), line="v" if barrier else "wrong")
        figure.text(write - 10, y + 66, "writes", size=16, colour="v", anchor="end")
        figure.text(read + 12, y + 66, "reads", size=16, colour="v" if barrier else "wrong")
        figure.rect(MARGIN, cell, whole, 62, fill="v", line="v", round_=6)
        figure.text(MARGIN + 16, cell + 26, f"V_j({key}, {column})", bold=True)
        figure.text(MARGIN + 16, cell + 49, f"shadow: thread {writer} wrote, interval 7", size=16)
        verdict = "8 comes after 7: in order" if barrier else "read in 7 too: a race"
        figure.text(WIDTH - MARGIN - 16, cell + 26, verdict, bold=True, anchor="end",
                    colour="v" if barrier else "wrong")
    return figure


FIGURES = {"fa2_loops": fa2_loops, "rows_over_warps": rows_over_warps, "register_tiling": register_tiling, "padding": padding, "gpu": gpu, "machine": machine}
STAIRS = (("FlashAttention-2", "fa2_forward", "bf16 B4 H16 N4096 D64"), ("… with larger tiles *", "fa2_forward", "f32 B4 H16 N4096 D64"))
