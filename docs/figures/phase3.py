"""Figures of phase 3: FlashAttention-2."""

from banks import draw_banks, passes
from constants import BANK_BYTES, BANKS, LANES_PER_ROW, WARP, Source
from draw import MARGIN, WIDTH, Figure
from loops import LEFT, RIGHT, ROW, Grid, Problem, draw_grid, draw_traffic

FA2 = Source("phase3_fa2/fa2.cuh")


def fa2_tiles(head_dim):
    return tuple(FA2.number(name, within="struct Fa2Tiles", D=head_dim) for name in ("B_r", "B_c"))


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
    figure.text(MARGIN, 36, f"Each Q_i stays with its block, K and V come past: {grid.rows} blocks")
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


FIGURES = {"fa2_loops": fa2_loops, "rows_over_warps": rows_over_warps, "padding": padding}
