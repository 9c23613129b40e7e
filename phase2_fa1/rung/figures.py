"""Figures of phase 2: FlashAttention-1."""

import math

from constants import Source, default_device
from draw import MARGIN, WIDTH, Figure
from loops import LEFT, RIGHT, ROW, TOP, Grid, Problem, draw_grid, draw_traffic
from softmax import merge, state_of


def fa1_tiles(head_dim, element_bytes):
    """B_r and B_c by fa1_tiles() of phase2_fa1/fa1_tiles.h, on the default device."""
    limit = default_device().block_bytes_optin
    source = Source("phase2_fa1/fa1_tiles.h").expect(
        "return 2 * simt::shared_bytes<std::byte>(B_c, row_bytes) + simt::shared_bytes<std::byte>(B_r, row_bytes) + "
        "simt::shared_bytes<float>(B_r, fa1_score_pitch(B_c));",
        "published_B_c = (M + 4 * d - 1) / (4 * d);",
        "std::clamp(published_B_c / kFa1Granule * kFa1Granule, kFa1Granule, kFa1LargestB_c);",
        "while (B_c > kFa1Granule && bytes() > std::size_t(limit)) B_c -= kFa1Granule;",
        "return {.B_r = std::min(B_c, d)")
    granule = source.number("kFa1Granule")
    row_bytes = source.number("row_bytes", d=head_dim, element_bytes=element_bytes)

    def needed(B_c):
        B_r = min(B_c, head_dim)
        pitch = source.found(r"fa1_score_pitch\(int B_c\) { return (.*?); }", B_c=B_c)
        return (2 * B_c + B_r) * row_bytes + B_r * pitch * 4

    published = -(-(limit // element_bytes) // (4 * head_dim))
    B_c = max(granule, published // granule * granule)
    while B_c > granule and needed(B_c) > limit:
        B_c -= granule
    return min(B_c, head_dim), B_c


def fa1_loops():
    problem = Problem()
    grid = Grid(problem, *fa1_tiles(problem.head_dim, 4))
    i, j = 3, 2
    steps, Sq = grid.columns, problem.queries
    figure = Figure(
        "FlashAttention-1: key tiles outside, query tiles inside",
        f"The scores as {grid.rows} by {steps} tiles, visited column by column: a tile of K and V stays while all "
        "query tiles go by. At each step O, l and m of the query tile come from global memory and go back. Bars "
        f"below: K and V are read once, Q {steps} times, O comes in {steps - 1} and goes out {steps} times.")
    figure.text(MARGIN, 36, f"K_j and V_j stay (*j* = {j}), every Q_i goes by")
    draw_grid(figure, grid, [j + (row < i) for row in range(grid.rows)], {(i, j)}, keys_now=j, rows_now={i})
    for column in range(j + 1):
        x = grid.centre(0, column)[0]
        figure.arrow((x, TOP + 5), (x, grid.bottom - 5 if column < j else grid.y(i) - 1), line="s", width=2.5)
        if column < j:
            figure.line((x + 4, grid.bottom - 8), (grid.centre(0, column + 1)[0] - 2, TOP + 8), line="s",
                        dash="3 5")
    y = grid.y(i) + ROW / 2
    figure.arrow((MARGIN, y), (LEFT - 37, y), line="q", width=2.5)
    out = RIGHT + 52
    figure.arrow((out + 48, y - 7), (out, y - 7), line="o", width=2.5)
    figure.arrow((out, y + 8), (out + 48, y + 8), line="o", width=2.5)
    figure.text(out + 54, y - 12, "in, updated,", size=15, colour="o")
    figure.text(out + 54, y + 6, "and out,", size=15, colour="o")
    figure.text(out + 54, y + 24, "every step", size=15, colour="o")

    tensor = problem.kib(Sq)
    travel = (steps - 1) * problem.kib(Sq, problem.head_dim + 2)
    last = problem.kib(Sq, problem.head_dim + 1)
    draw_traffic(figure, grid.bottom + 62, [
        ("K", "k", problem.kib(problem.keys), 0, "once"),
        ("V", "v", problem.kib(problem.keys), 0, "once"),
        ("Q", "q", steps * tensor, 0, f"{steps} times"),
        ("O, *l*, *m*", "o", travel, travel + last, f"{steps - 1} in, {steps} out")])
    return figure


def tile_update():
    known_scores, known_values = [1.0, 2.0, 0.4, 1.5], [3.0, 2.0, 4.0, 1.0]
    tile_scores, tile_values = [2.6, 3.1, 1.9, 2.3], [8.0, 7.0, 9.0, 6.0]
    known, tile = state_of(known_scores, known_values), state_of(tile_scores, tile_values)
    new = merge(known, tile)
    figure = Figure(
        "The update of m, l and the normalised output Ō by one tile",
        f"What a row knows (m = {known.m}, l = {known.l:.2f}, Ō = {known.out:.2f}) and what the new tile says by "
        f"itself (m = {tile.m}, l = {tile.l:.2f}, mean {tile.out:.2f}) are brought under the larger maximum. The "
        f"sums become two shares of the new l = {new.l:.2f}, and the new Ō = {new.out:.2f} is the mean of both "
        "outputs, weighted by these shares.")
    whole = WIDTH - 2 * MARGIN
    half = (whole - 24) / 2
    floor, unit = 128, 62
    parts = (("Known so far", known, known_scores, "state", MARGIN, ""),
             ("The new tile by itself", tile, tile_scores, "s", MARGIN + half + 24, "_{tile}"))
    weights = [math.exp(part.m - new.m) for part in (known, tile)]
    bar = floor + 116
    split = MARGIN + whole * weights[0] * known.l / new.l
    ends = ((MARGIN, split), (split, MARGIN + whole))
    for (title, state, scores, colour, x, which), weight, (x0, x1) in zip(parts, weights, ends):
        terms = x + 34 * len(scores) - 8
        figure.polygon([(x, floor + 6), (terms, floor + 6), (x1, bar), (x0, bar)], fill=colour, opacity=0.4)
        figure.text(x, 36, title)
        for n, score in enumerate(scores):
            height = unit * math.exp(score - state.m)
            figure.rect(x + 34 * n, floor - height, 26, height, fill=colour, line=colour, round_=0)
        figure.line((x, floor), (terms, floor))
        figure.text(terms + 18, floor - 44, f"*m*{which} = {state.m}", colour=colour)
        figure.text(terms + 18, floor - 21, f"*l*{which} = {state.l:.2f}", colour=colour)
        figure.text(terms + 18, floor + 2, f"Ō{which} = {state.out:.2f}", colour="o")
        figure.rect(x0, bar, x1 - x0, 34, fill=colour, line=colour, round_=0)
        figure.text((x0 + x1) / 2, bar + 23, f"{weight:.2f} *l*{which}", anchor="middle", bold=True)
        share = weight * state.l / new.l
        figure.text((x0 + x1) / 2, bar + 56, f"{100 * share:.0f} % of *l*_{{new}}", anchor="middle", colour=colour)
    figure.text(WIDTH / 2, floor + 44, f"Both under the larger maximum, *m*_{{new}} = {new.m}", anchor="middle")
    figure.text(MARGIN, bar - 14, f"exp(*m* − *m*_{{new}}) = {weights[0]:.2f}", size=16, colour="state")
    figure.text(MARGIN + whole, bar - 14, f"exp(*m*_{{tile}} − *m*_{{new}}) = {weights[1]:.2f}", size=16, colour="s",
                anchor="end")

    figure.text(MARGIN, bar + 102, "The new output is the mean of both, by these shares")
    axis = bar + 152
    low, high = known.out, tile.out

    def at(value):
        return MARGIN + 56 + (whole - 112) * (value - low) / (high - low)

    figure.line((at(low), axis), (at(high), axis), line="o", width=2.5)
    for value, words, radius, fill in ((low, f"Ō = {low:.2f}", 7, "panel"),
                                       (high, f"Ō_{{tile}} = {high:.2f}", 7, "panel"),
                                       (new.out, f"Ō_{{new}} = {new.out:.2f}", 9, "o!")):
        figure.circle(at(value), axis, radius, fill=fill, line="o", width=2.5)
        above = fill == "o!"
        figure.text(at(value), axis + (-20 if above else 34), words, anchor="middle", colour="o", bold=above)
    return figure


FIGURES = {"fa1_loops": fa1_loops, "tile_update": tile_update}
STAIRS = (("FlashAttention-1 *", "fa1_plain_forward", "f32 B4 H16 N4096 D64"), ("… with larger tiles *", "fa1_forward", "f32 B4 H16 N4096 D64"))
