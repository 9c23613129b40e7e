"""Figures of phase 4: causal masks."""

from constants import Source
from draw import MARGIN, Figure

TILES = Source("common/attention/key_tiles.cuh")


def visible_keys(alignment, query, queries, keys):
    """visible_keys() of common/attention/key_tiles.cuh."""
    TILES.expect("diagonal = query + 1 - (mask == Mask::causal_bottom_right ? query_length - key_length : 0);",
                 "return diagonal < 0 ? 0 : diagonal > key_length ? key_length : diagonal;")
    diagonal = query + 1 - (queries - keys if alignment == "bottom-right" else 0)
    return min(max(diagonal, 0), keys)


def key_tiles(first_query, B_r, B_c, queries, keys):
    """How many tiles are full, and how many are visited at all: key_tiles(), bottom-right."""
    TILES.expect("return {.full = fewest / B_c, .visited = (most + B_c - 1) / B_c};")
    fewest = visible_keys("bottom-right", first_query, queries, keys)
    most = visible_keys("bottom-right", min(first_query + B_r, queries) - 1, queries, keys)
    return fewest // B_c, -(-most // B_c)


def causal_stages():
    N, D = 512, 64
    causal = Source("phase4_causal/causal.cuh")
    B_r, B_c = (causal.number(name, within="struct CausalTiles", D=D) for name in ("B_r", "B_c"))
    rows, columns = N // B_r, N // B_c
    stages = [key_tiles(i * B_r, B_r, B_c, N, N) for i in range(rows)]
    counts = {"full": sum(full for full, _ in stages), "edge": sum(visited - full for full, visited in stages),
              "never": sum(columns - visited for _, visited in stages)}
    figure = Figure(
        "A causal mask over tiles: full, edge, never loaded",
        f"{rows} query tiles by {columns} key tiles, with the diagonal of the mask. Below it {counts['full']} tiles "
        f"are full, along it {counts['edge']} are edge tiles, above it {counts['never']} are never loaded.")
    left, top, side = 60, 66, 344
    w, h = side / columns, side / rows
    figure.text(left, 34, f"{N} keys, tiles of {B_c} →", colour="k")
    figure.text(MARGIN + 14, top + 10, "Q", colour="q", bold=True, anchor="middle")
    figure.arrow((MARGIN + 14, top + 24), (MARGIN + 14, top + side), line="q")
    for j in range(columns):
        figure.rect(left + w * j, top - 18, w, 12, fill="k", line="k", round_=0, width=1)
    for i, (full, visited) in enumerate(stages):
        for j in range(columns):
            fill = "s" if j < full else "s!" if j < visited else None
            figure.rect(left + w * j, top + h * i, w, h, fill=fill, line="rule" if j >= visited else "panel",
                        round_=0, width=1)
    figure.line((left, top), (left + side, top + side), line="panel", width=3)

    at = left + side + 28
    for y, fill, name, words, line in (
            (top + 22, None, f"{counts['never']} never loaded", "above the diagonal", "rule"),
            (top + 122, "s!", f"{counts['edge']} edge tiles", "each score is tested", "s"),
            (top + 222, "s", f"{counts['full']} full tiles", "no test at all", "s")):
        figure.rect(at, y - 15, 18, 18, fill=fill, line=line, round_=0)
        figure.text(at + 28, y, name, bold=True)
        figure.text(at + 28, y + 23, words, size=16, colour="quiet")
    visited = counts["full"] + counts["edge"]
    figure.text(at, top + side - 26, "K and V tiles read:", colour="quiet")
    figure.text(at, top + side - 2, f"{visited} of {rows * columns}", colour="k", bold=True)
    return figure


def alignment():
    shapes = ((3, 5), (5, 3))
    sides = (("bottom-right", "FlashAttention ≥ 2.1"), ("top-left", "PyTorch's `is_causal`"))
    figure = Figure(
        "Two causal masks where queries and keys differ in number",
        "For 3 queries and 5 keys, and for 5 queries and 3 keys: the bottom-right mask lets the last query see the "
        "last key, the top-left mask lets the first query see just the first key. With 5 queries and 3 keys, two "
        "queries of the bottom-right mask see nothing.")
    cell = 32
    for n, (side, known_from) in enumerate(sides):
        x = 150 + 250 * n
        figure.text(x, 36, side, bold=True)
        figure.text(x, 60, known_from, size=16, colour="quiet")
        y = 96
        for queries, keys in shapes:
            if n == 0:
                figure.text(MARGIN, y + cell * queries / 2 - 4, f"{queries} queries", colour="q")
                figure.text(MARGIN, y + cell * queries / 2 + 20, f"{keys} keys", colour="k")
            for i in range(queries):
                seen = visible_keys(side, i, queries, keys)
                for j in range(keys):
                    figure.rect(x + cell * j, y + cell * i, cell - 4, cell - 4, fill="s!" if j < seen else None,
                                line="s" if j < seen else "rule", round_=3)
                if seen == 0:
                    figure.text(x + cell * keys + 6, y + cell * i + 20, "sees nothing", size=16, colour="quiet")
            corner = (x - 9, y - 9) if side == "top-left" else (x + cell * keys + 5, y + cell * queries + 5)
            figure.circle(*corner, 5, fill="ink!")
            y += cell * queries + 44
    figure.circle(155, y - 8, 5, fill="ink!")
    figure.text(170, y - 3, "the corner where the diagonal is fixed", size=16, colour="quiet")
    return figure


FIGURES = {"causal_stages": causal_stages, "alignment": alignment}
STAIRS = (("causal, larger tiles *", "causal_forward", "f32 B4 H16 N8192 D64 causal"),)
