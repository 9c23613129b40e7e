"""Figures of phase 3: FlashAttention-2."""

from constants import BANK_BYTES, BANKS, LANES_PER_ROW, WARP, Source
from draw import MARGIN, WIDTH, Figure
from loops import LEFT, RIGHT, ROW, TOP, Grid, Problem, draw_grid, draw_traffic

FA2 = Source("phase3_fa2/fa2.cuh")


def fa2_tiles(head_dim):
    return tuple(FA2.number(name, within="struct Fa2Tiles", D=head_dim) for name in ("B_r", "B_c"))


def fa2_loops():
    problem = Problem()
    grid = Grid(problem, *fa2_tiles(problem.head_dim))
    progress = [10, 12, 9, 11, 13, 10, 12, 9]
    if len(progress) != grid.rows:
        raise ValueError(f"fa2_loops draws {len(progress)} query tiles; there are {grid.rows} now")
    figure = Figure("FlashAttention-2: query tiles outside, key tiles inside",
                    f"The same scores as {grid.rows} by {grid.columns} tiles. Each row of tiles belongs to a block of its own; the blocks "
                    "run at the same time, and each walks along the keys. O is written once, at the end of the row. Bars below: Q "
                    f"and O move once, K and V are read {grid.rows} times.")
    figure.text(MARGIN, 36, f"Each Q_i stays with its block, K and V come past: {grid.rows} blocks")
    draw_grid(figure, grid, progress, {(i, progress[i]) for i in range(grid.rows)}, rows_now=range(grid.rows))
    for i in range(grid.rows):
        y = grid.y(i) + ROW / 2
        figure.arrow((LEFT + 5, y), (grid.x(progress[i]) - 2, y), line="s", width=2)
        figure.text(LEFT - 42, y + 5, f"block {i}", size=14, colour="quiet", anchor="end")
        figure.arrow((RIGHT + 52, y), (RIGHT + 84, y), line="o", width=2)
    figure.text(RIGHT + 90, grid.y(grid.rows // 2) - 6, "out once,", size=14, colour="o")
    figure.text(RIGHT + 90, grid.y(grid.rows // 2) + 12, "at the end", size=14, colour="o")

    tensor, keys = problem.kib(problem.queries), problem.kib(problem.keys)
    draw_traffic(figure, grid.bottom + 62, [
        ("K", "k", grid.rows * keys, 0, f"{grid.rows} times"),
        ("V", "v", grid.rows * keys, 0, f"{grid.rows} times"),
        ("Q", "q", tensor, 0, "once"),
        ("O, LSE", "o", 0, problem.kib(problem.queries, problem.head_dim + 1), "once")])
    return figure


FIGURES = {"fa2_loops": fa2_loops}
