"""Figures of phase 0: softmax."""

import math

from constants import WARP, Source
from draw import Figure
from softmax import State, merge


def online_softmax():
    scores = [1.2, 0.6, 2.0, 1.0, 3.6, 2.6, 3.2, 1.8]
    figure = Figure(
        "Online softmax of a row of eight scores",
        "Bars show the scores, a stepped line their maximum so far. Below, the sum l grows by one term for each "
        "score. Where the maximum rises, everything summed so far shrinks by one common factor, and the new term is "
        "1.")
    left, column, bar = 116, 62, 34
    floor, unit = 176, 33           # of the scores
    ground, height = 396, 42        # of the sums

    figure.text(24, 34, "A row of scores, and their *maximum so far*")
    figure.text(24, floor + 24, "score", colour="s")
    figure.text(24, floor + 48, "max *m*", colour="state")
    figure.text(24, 268, "The sum: one term for each score so far")
    figure.text(24, ground + 24, "sum *l*", colour="s")

    state, steps = State(), []
    for j, score in enumerate(scores):
        before, state = state, merge(state, State(score, 1.0))
        x = left + column * j
        moved = j > 0 and state.m > before.m
        factor = math.exp(before.m - state.m)
        figure.rect(x + 6, floor - unit * score, bar, unit * score, fill="s", line="s", round_=2)
        figure.text(x + 6 + bar / 2, floor + 24, f"{score}", anchor="middle", colour="s")
        figure.text(x + 6 + bar / 2, floor + 48, f"{state.m}", anchor="middle", colour="state", bold=moved or j == 0)
        steps += [(x, floor - unit * state.m), (x + column, floor - unit * state.m)]

        kept = height * before.l * factor
        if moved:
            figure.polygon([(x + 6 + bar - column, ground - height * before.l), (x + 6, ground - kept), (x + 6, ground),
                            (x + 6 + bar - column, ground)], fill="state")
            figure.text(x + 6 - (column - bar) / 2, ground - height * max(before.l, state.l) - 10, f"× {factor:.2f}",
                        anchor="middle", colour="state", bold=True)
        if j > 0:
            figure.rect(x + 6, ground - kept, bar, kept, fill="s", line="s", round_=2)
        figure.rect(x + 6, ground - height * state.l, bar, height * state.l - kept, fill="s!", line="s", round_=2)
        figure.text(x + 6 + bar / 2, ground + 24, f"{state.l:.2f}", anchor="middle", colour="s")
    figure.line(*steps, line="state", width=3)
    figure.line((left, floor), (left + column * len(scores), floor))
    figure.line((left, ground), (left + column * len(scores), ground))

    figure.rect(24, ground + 46, 16, 16, fill="s!", line="s", round_=2)
    figure.text(48, ground + 60, "new term *e*^{x − m}")
    figure.rect(200, ground + 46, 16, 16, fill="s", line="s", round_=2)
    figure.text(224, ground + 60, "summed before")
    figure.rect(374, ground + 46, 16, 16, fill="state", round_=2)
    figure.text(397, ground + 60, "higher maximum: shrinks")
    return figure


def merge_tree():
    warps = Source("phase0_softmax/softmax.cuh").number("kRowWarps")
    steps = [1 << s for s in range(WARP.bit_length() - 1)]
    figure = Figure(
        "Merging states over lanes, warps and the block",
        f"The {WARP} lanes of a warp exchange their maxima in {len(steps)} steps of shuffles, and their sums in as many. "
        f"After each, a lane knows of twice as many. Then the {warps} warps of a block leave one state each in shared "
        "memory, and after a barrier every warp merges these too.")
    left, lane, step_height, top = 96, 16.25, 38, 74
    x = [left + lane * (i + 0.5) for i in range(WARP)]

    figure.text(24, 34, f"In a warp: {len(steps)} steps of shuffles, and all {WARP} lanes know the whole")
    figure.text(24, top + 5, "lanes", colour="state")
    tree = {0}  # lanes on whose state lane 0's answer rests
    levels = [tree]
    for step in reversed(steps):
        tree = tree | {i ^ step for i in tree}
        levels.insert(0, tree)
    exchanges = ""
    for level, step in enumerate(steps):
        y = top + step_height * level
        figure.text(24, y + step_height / 2 + 5, f"step {step}", size=15, colour="quiet")
        exchanges += "".join(f"M{x[other]} {y}L{x[i]} {y + step_height}"
                             for i in range(WARP) for other in (i, i ^ step))
    figure.path(exchanges, line="rule", width=1, opacity=0.45)
    for level, step in enumerate(steps):
        y = top + step_height * level
        for i in levels[level + 1]:
            for other in (i, i ^ step):
                figure.line((x[other], y), (x[i], y + step_height), line="state", width=2.5)
    for level in range(len(steps) + 1):
        for i in range(WARP):
            known = i in levels[level]
            figure.circle(x[i], top + step_height * level, 5 if known else 3.5, fill="state!" if known else "panel",
                          line="state" if known else "rule")

    y = top + step_height * len(steps) + 26
    figure.text(left + lane * WARP, y, "bold: what lane 0 ends up with", size=15, colour="quiet", anchor="end")
    y += 44
    cell = lane * WARP / warps
    figure.text(24, y, f"In the block: {warps} warps meet in shared memory")
    y += 20
    figure.text(24, y + 19, "warps", colour="state")
    for w in range(warps):
        at = left + cell * w
        figure.rect(at + 2, y, cell - 4, 28, fill="state", line="state")
        figure.text(at + cell / 2, y + 19, f"{w}", size=15, anchor="middle")
        figure.arrow((at + cell / 2, y + 30), (at + cell / 2, y + 56), line="state", width=1.5)
        figure.rect(at, y + 58, cell, 26, fill="plain", line="plain", round_=0)
    figure.text(24, y + 77, "shared", colour="quiet")
    middle = left + cell * warps / 2
    figure.polygon([(left, y + 86), (left + cell * warps, y + 86), (middle + 76, y + 150), (middle - 76, y + 150)],
                   fill="state", opacity=0.4)
    figure.line((24, y + 104), (left + cell * warps, y + 104), line="quiet", width=2.5, dash="8 5")
    figure.text(24, y + 126, "`__syncthreads()`", size=15, colour="quiet")
    figure.text(24, y + 171, "every warp merges them all", size=15, colour="quiet")
    figure.rect(middle - 76, y + 150, 152, 32, fill="state", line="state", width=2.5)
    figure.text(middle, y + 171, "(*m*, *l*) of the row", anchor="middle", size=15)
    return figure


FIGURES = {"online_softmax": online_softmax, "merge_tree": merge_tree}
STAIRS = (("safe softmax", "safe_softmax", "bf16 16384x4096"), ("online softmax", "online_softmax", "bf16 16384x4096"),
          ("a block per row", "block_plain_softmax", "bf16 16384x4096"), ("a row that stays", "block_softmax", "bf16 16384x4096"))
