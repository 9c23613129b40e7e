"""The loops of FlashAttention-1 and of FlashAttention-2, drawn alike so that they can be compared."""

import dataclasses

from draw import MARGIN

KIB = 1024
LEFT, TOP, ROW, WIDTH_OF_KEYS = 112, 112, 25, 320
RIGHT = LEFT + WIDTH_OF_KEYS
BAR_LEFT, BAR_KIB = 112, 1408  # the widest bar of both figures, so that their bars have one scale
BAR_WIDTH = 330


@dataclasses.dataclass(frozen=True)
class Problem:
    """One head, float32."""
    queries: int = 512
    keys: int = 512
    head_dim: int = 64

    def kib(self, rows, elements=None):
        return rows * (elements or self.head_dim) * 4 / KIB


@dataclasses.dataclass(frozen=True)
class Grid:
    """The score matrix cut into tiles; the last column may be narrower."""
    problem: Problem
    B_r: int
    B_c: int

    @property
    def rows(self):
        return -(-self.problem.queries // self.B_r)

    @property
    def columns(self):
        return -(-self.problem.keys // self.B_c)

    def x(self, column):
        return LEFT + WIDTH_OF_KEYS * min(column * self.B_c, self.problem.keys) / self.problem.keys

    def y(self, row):
        return TOP + ROW * row

    def centre(self, row, column):
        return (self.x(column) + self.x(column + 1)) / 2, self.y(row) + ROW / 2

    @property
    def bottom(self):
        return self.y(self.rows)


def draw_grid(figure, grid, progress, current, *, keys_now=None, rows_now=()):
    """Tiles done (column < progress[row]) and at work, and bands of K, V, Q, O, l and m; `_now` is on the chip."""
    for band, colour, y in (("K", "k", TOP - 44), ("V", "v", TOP - 24)):
        figure.text(LEFT - 14, y + 13, band, colour=colour, anchor="end", bold=True)
        for j in range(grid.columns):
            figure.rect(grid.x(j), y, grid.x(j + 1) - grid.x(j), 16, fill=f"{colour}!" if j == keys_now else colour,
                        line=colour, round_=0)
    for x, w, colour in ((LEFT - 34, 20, "q"), (RIGHT + 14, 20, "o"), (RIGHT + 36, 12, "state")):
        for i in range(grid.rows):
            figure.rect(x, grid.y(i), w, ROW, fill=f"{colour}!" if i in rows_now else colour, line=colour, round_=0)
    figure.text(LEFT - 24, grid.bottom + 20, "Q", colour="q", anchor="middle", bold=True)
    figure.text(RIGHT + 24, grid.bottom + 20, "O", colour="o", anchor="middle", bold=True)
    figure.text(RIGHT + 40, grid.bottom + 20, "*l*, *m*", colour="state", size=16)
    for i in range(grid.rows):
        for j in range(grid.columns):
            fill = "s!" if (i, j) in current else "s" if j < progress[i] else None
            figure.rect(grid.x(j), grid.y(i), grid.x(j + 1) - grid.x(j), ROW, fill=fill, line="rule", round_=0, width=1)


def draw_traffic(figure, y, rows):
    """One bar for each (name, colour, KiB read, KiB written, words)."""
    figure.text(MARGIN, y, "Moved to and from global memory")
    figure.rect(362, y - 12, 14, 14, fill="plain", line="plain", round_=0)
    figure.text(382, y, "read", size=15, colour="quiet")
    figure.rect(434, y - 12, 14, 14, fill="plain!", line="plain", round_=0)
    figure.text(454, y, "written", size=15, colour="quiet")
    for n, (name, colour, read, written, words) in enumerate(rows):
        top = y + 18 + 28 * n
        figure.text(BAR_LEFT - 10, top + 15, name, anchor="end", colour=colour, bold=True)
        middle = BAR_LEFT + BAR_WIDTH * read / BAR_KIB
        end = middle + BAR_WIDTH * written / BAR_KIB
        if read:
            figure.rect(BAR_LEFT, top, middle - BAR_LEFT, 20, fill=colour, line=colour, round_=0)
        if written:
            figure.rect(middle, top, end - middle, 20, fill=f"{colour}!", line=colour, round_=0)
        figure.text(end + 10, top + 15, words, size=16)
