"""Figures of phase 8: the backward pass."""

from constants import Source
from draw import MARGIN, WIDTH, Figure

TILES = Source("phase8_backward/backward_tensors.cuh")
STAIRS = (("backward", "plain_backward", "bf16 B4 H16 N4096 D64 bwd"), ("… on tensor cores", "mma_backward_atomics", "bf16 B2 H16 N8192 D128 bwd"),
          ("… on Hopper", "hopper_backward_atomics", "bf16 B2 H16 N8192 D128 bwd"))


def tiles(head_dim):
    """Rows of the tiles that stay with a block, and of those that pass."""
    return tuple(TILES.number(name, within="struct BackwardTiles", HeadDim=head_dim) for name in ("kept", "passing"))


def backward_mean():
    """A row of four keys: weights as widths, dP as heights, so that dS are areas."""
    Source("phase8_backward/delta.cuh").expect("sum += float(dO(query, c)) * float(O(query, c));")
    weights, dP = (0.4, 0.3, 0.2, 0.1), (3.0, -1.0, 2.0, -6.0)
    mean = sum(p * g for p, g in zip(weights, dP))
    dS = [p * (g - mean) for p, g in zip(weights, dP)]
    if abs(sum(dS)) > 1e-12:
        raise ValueError("the areas of backward_mean do not add up to 0")
    figure = Figure(
        "The gradient of a row's scores, as areas",
        "Four keys of a row. Each bar is as wide as the key's weight, and ends at its dP. The line is D, the mean. Areas above it are positive "
        f"gradients, areas below negative ones: {', '.join(f'{x:+.2f}' for x in dS)}. Together they are 0.")
    left, width, zero, unit = MARGIN + 66, WIDTH - 2 * MARGIN - 190, 150, 20

    def y(value):
        return zero - unit * value

    figure.text(MARGIN, 34, "Width: the weight P_{ij}. Height: dP_{ij}. Area to the line: dS_{ij}")
    x = left
    for p, g, s in zip(weights, dP, dS):
        w = width * p
        top, bottom = y(max(g, mean)), y(min(g, mean))
        figure.rect(x + 2, top, w - 4, bottom - top, fill="s" if s > 0 else "wrong", line="s" if s > 0 else "wrong", round_=0)
        figure.text(x + w / 2, y(max(g, mean)) - 8 if s > 0 else y(min(g, mean)) + 20, f"{s:+.2f}", size=16, anchor="middle", bold=True)
        figure.text(x + w / 2, y(-8.4), f"{p:.1f}", size=16, anchor="middle", colour="quiet")
        x += w
    figure.line((left - 8, y(mean)), (left + width + 8, y(mean)), line="state", width=2.5)
    figure.text(left + width + 16, y(mean) + 5, f"D_{{i}} = {mean:.1f}", colour="state", bold=True)
    figure.text(MARGIN, y(-8.4), "P_{ij}", size=16, colour="quiet")
    for g in (3, -6):
        figure.line((left - 14, y(g)), (left - 6, y(g)), line="rule")
        figure.text(left - 20, y(g) + 5, f"{g}", size=16, colour="quiet", anchor="end")
    return figure


def backward_loops():
    N, D = 256, 64
    kept, passing = tiles(D)
    figure = Figure(
        "Two kernels, two loops over the same pairs",
        f"{N} queries by {N} keys under a causal mask. Left: a block keeps {kept} keys, and tiles of {passing} queries pass, from the diagonal "
        f"down; dK and dV grow in registers. Right: a block keeps {kept} queries, and tiles of {passing} keys pass, up to the diagonal; dQ grows.")
    side, top = 224, 92
    cell = side / N
    for n, (colour, head, words, sums) in enumerate((("k", "dkdv.cuh", "keys stay", "dK_{j}, dV_{j}"), ("q", "dq.cuh", "queries stay", "dQ_{i}"))):
        left = MARGIN + 34 + n * (WIDTH // 2)
        figure.text(left, 36, f"`{head}`: {words}", bold=True, colour=colour)
        figure.text(left, 66, "keys →", size=16, colour="quiet")
        for number in range(N // kept):
            for step in range(N // passing):
                first_kept, first_passing = number * kept, step * passing
                if n == 0:
                    seen, x, y, w, h = first_passing + passing > first_kept, first_kept, first_passing, kept, passing
                else:
                    seen, x, y, w, h = first_passing < first_kept + kept, first_passing, first_kept, passing, kept
                now = number == 1
                figure.rect(left + cell * x + 1, top + cell * y + 1, cell * w - 2, cell * h - 2,
                            fill=("s!" if now else "s") if seen else None, line="s" if seen else "rule", round_=0, width=1)
        figure.line((left, top), (left + side, top + side), line="panel", width=2)
        middle = cell * (kept + kept / 2)
        if n == 0:
            figure.arrow((left + middle, top + cell * kept + 6), (left + middle, top + side - 4), line="panel", width=3)
            figure.arrow((left + middle, top + side + 6), (left + middle, top + side + 34), line="o")
            figure.text(left + middle + 14, top + side + 32, f"{sums}, once", size=16, colour="o")
        else:
            figure.arrow((left + 6, top + middle), (left + cell * 2 * kept - 4, top + middle), line="panel", width=3)
            figure.arrow((left + side + 6, top + middle), (left + side + 34, top + middle), line="o")
            figure.text(left + side, top + side + 32, f"{sums}, once", size=16, colour="o", anchor="end")
    figure.text(MARGIN, top + 14, "Q", size=16, colour="quiet")
    figure.arrow((MARGIN + 6, top + 26), (MARGIN + 6, top + side), line="rule")
    return figure


FIGURES = {"backward_loops": backward_loops, "backward_mean": backward_mean}
