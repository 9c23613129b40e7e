"""Figures of phase 9: a ring of four."""

import json

from constants import ROOT, Source
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


def recorded(name):
    """What each rank of four did in the ring, of a trace that ./ladder ring wrote: lists of (what, begin, end) in milliseconds."""
    trace = json.loads((ROOT / f"docs/results/cpu/{name}.json").read_text())
    (ring,) = trace["methods"]
    assert ring["passed"] and trace["ranks"] == RANKS
    return trace, [[(what, begin / 1e3, end / 1e3) for what, begin, end in rank] for rank in ring["events"]]


def ring_timeline():
    ways = {"K and V travel while ranks work": recorded("ring-overlap"), "K and V travel before ranks work": recorded("ring-no-overlap")}
    ends = [max(end for rank in ranks for _, _, end in rank) for _, ranks in ways.values()]
    trace = next(iter(ways.values()))[0]
    figure = Figure(
        "A ring of four over time, with and without overlap",
        f"Recorded events of four ranks. Where K and V travel while ranks work, all are through after {ends[0]:.0f} milliseconds, and hardly wait. "
        f"Where they travel first, ranks wait during three hops, and it takes {ends[1]:.0f} milliseconds.")
    left, pitch = MARGIN + 62, 46
    scale = (WIDTH - MARGIN - left) / max(ends)
    for n, (title, (_, ranks)) in enumerate(ways.items()):
        top = 40 + n * (RANKS * pitch + 62)
        figure.text(MARGIN, top, title, bold=True)
        figure.text(WIDTH - MARGIN, top, f"{ends[n]:.0f} ms", anchor="end")
        for rank, events in enumerate(ranks):
            y = top + 14 + rank * pitch
            figure.text(MARGIN, y + 20, f"rank {rank}")
            steps = 0
            for what, begin, end in events:
                x, width = left + begin * scale, max(1, (end - begin) * scale)
                if what == "work":
                    figure.rect(x, y, width, 26, fill="s", line="s", round_=2)
                    figure.text(x + width / 2, y + 18, f"K_{{{owner(rank, steps)}}}", size=15, anchor="middle")
                    steps += 1
                elif what == "merge":
                    figure.rect(x, y, width, 26, fill="o!", round_=0)
                elif what == "receive":
                    figure.rect(x, y + 29, width, 7, fill="k!", round_=1)
            assert steps == RANKS
    y = top + 14 + RANKS * pitch + 22
    for x, fill, words in ((MARGIN, "s", "works"), (MARGIN + 100, "o!", "merges"), (MARGIN + 210, "k!", "the next K and V travel to it")):
        figure.rect(x, y - 11, 14, 12, fill=fill, line=fill.removesuffix("!"), round_=1)
        figure.text(x + 22, y, words, size=15)
    q, link = trace["q"], trace["link_bytes_a_second"]
    figure.text(MARGIN, y + 28, f"Four processes on a CPU, over Gloo; {q[2]:,} tokens, {q[1]} heads of {q[3]}, a link", size=15, colour="quiet")
    figure.text(MARGIN, y + 48, f"slowed to {link / 1e6:g} MB/s. Recorded on {trace['date'][:10]}, commit {trace['commit']}.", size=15, colour="quiet")
    return figure


FIGURES = {"ring_steps": ring_steps, "ring_timeline": ring_timeline, "ring_work": ring_work}
