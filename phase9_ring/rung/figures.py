"""Figures of phase 9: a ring of four."""

from constants import Source
from draw import MARGIN, WIDTH, Figure

RANKS = 4
COLOURS = ("q", "k", "v", "o")  # of the ranks whose keys they are


def owner(rank, step):
    Source("phase9_ring/ring.cpp").expect("return (group_.rank() - step + group_.size()) % group_.size();")
    return (rank - step + RANKS) % RANKS


def ring_steps():
    figure = Figure(
        "Whose keys each rank has",
        "Four ranks, four steps. At step 0 each rank has its own keys; after each step they have moved one rank on. Every rank has met "
        "the keys of all four after the last step, and K and V have made three hops.")
    left, top, width, height, gap = MARGIN + 92, 78, 112, 46, 14
    for step in range(RANKS):
        figure.text(left + step * (width + gap) + width / 2, 44, f"step {step}", anchor="middle", bold=True)
    for rank in range(RANKS):
        y = top + rank * (height + 26)
        figure.text(MARGIN, y + 20, f"rank {rank}", bold=True)
        figure.text(MARGIN, y + 40, f"Q_{{{rank}}} stays", size=15, colour="quiet")
        for step in range(RANKS):
            who, x = owner(rank, step), left + step * (width + gap)
            figure.rect(x, y, width, height, fill=COLOURS[who], line=COLOURS[who])
            figure.text(x + width / 2, y + 29, f"K_{{{who}}}, V_{{{who}}}", anchor="middle")
            if step + 1 < RANKS and rank + 1 < RANKS:
                figure.arrow((x + width - 8, y + height + 2), (x + width + 20, y + height + 24), line=COLOURS[who])
    figure.text(MARGIN, top + RANKS * (height + 26) + 12, "Rank 3 sends to rank 0.", size=15, colour="quiet")
    return figure


def intervals(parts, rank):
    """What a rank holds of 2 R intervals, as numbers of intervals."""
    if parts == "zigzag":
        Source("phase9_ring/parts.cpp").expect("interval_of(length, 2 * ranks - 1 - rank, 2 * ranks)")
        return rank, 2 * RANKS - 1 - rank
    return 2 * rank, 2 * rank + 1


def work(parts, rank, step):
    """Pairs of intervals that a rank works on at a step under a causal mask, of the four that there are."""
    pairs = 0.0
    for query in intervals(parts, rank):
        for key in intervals(parts, owner(rank, step)):
            pairs += 1.0 if key < query else 0.5 if key == query else 0.0
    return pairs / 4


def ring_work():
    figure = Figure(
        "Who works and who idles under a causal mask",
        "Above, contiguous parts: at step 1 rank 0 has nothing to do, at step 2 ranks 0 and 1, at step 3 all but rank 3; and every step takes as long "
        "as its busiest rank. Below, zigzag parts: all ranks have half of the pairs at every step.")
    cell, left = 25, MARGIN + 74
    for n, parts in enumerate(("contiguous", "zigzag")):
        top = 40 + n * 232
        figure.text(MARGIN, top, f"{parts} parts", bold=True)
        figure.text(MARGIN + 330, top, "work, step by step", bold=True)
        for rank in range(RANKS):
            y = top + 22 + rank * 44
            figure.text(MARGIN, y + 22, f"rank {rank}")
            for interval in range(2 * RANKS):
                held = interval in intervals(parts, rank)
                figure.rect(left + interval * (cell + 3), y, cell, 30, fill=COLOURS[rank] if held else None, line=COLOURS[rank] if held else "rule")
            for step in range(RANKS):
                share, x = work(parts, rank, step), MARGIN + 330 + step * 66
                figure.rect(x, y, 58, 30, line="rule")
                if share:
                    figure.rect(x, y, 58 * share, 30, fill="s", line="s")
                figure.text(x + 29, y + 21, f"{100 * share:.0f} %" if share else "idle", size=15, anchor="middle", colour="wrong" if not share else "ink")
    return figure


FIGURES = {"ring_steps": ring_steps, "ring_work": ring_work}
