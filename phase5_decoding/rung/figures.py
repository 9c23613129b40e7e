"""Figures of phase 5: keys split over blocks, and the merge."""

import math

from constants import Source, default_device
from draw import MARGIN, WIDTH, Figure
from softmax import State, merge, state_of

PLAN = Source("phase5_decoding/split_plan.h")


def choose_splits(blocks, keys, device):
    """choose_splits() of phase5_decoding/split_plan.cpp, for blocks of one row."""
    costs = Source("phase5_decoding/split_plan.cpp").expect(
        "full_waves = blocks / slots, rest = blocks % slots;",
        "{ return (work.key_tiles + splits - 1) / splits; }",
        "share_in_rest = std::max(double(rest) / double(slots), 1.0 / work.speed_alone);",
        "last_wave = rest == 0 ? 0.0 : tiles * share_in_rest + work.block_overhead;",
        "combine = splits == 1 ? 0.0 : kCombineLaunch + kMergePerSplit * splits;",
        "return double(full_waves) * (tiles + work.block_overhead) + last_wave + combine;")
    overhead, alone, launch, per_split = (source.number(name) for source, name in (
        (PLAN, "kBlockOverhead"), (PLAN, "kSpeedAlone"), (costs, "kCombineLaunch"), (costs, "kMergePerSplit")))
    slots = PLAN.found(r"resident_blocks\(int row_tile\) { return (.*?); }", row_tile=1) * device.multiprocessors
    tiles = -(-keys // PLAN.number("kKeyTile"))

    def time(splits):
        full_waves, rest = divmod(blocks * splits, slots)
        each = -(-tiles // splits)
        last_wave = each * max(rest / slots, 1 / alone) + overhead if rest else 0
        return full_waves * (each + overhead) + last_wave + (launch + per_split * splits if splits > 1 else 0)

    return min(range(1, min(tiles, PLAN.number("kMaxSplits")) + 1), key=time)


def split_keys():
    heads, keys, device = 8, 4096, default_device()
    splits = choose_splits(heads, keys, device)
    everyone = device.multiprocessors
    figure = Figure(
        "Keys split over blocks",
        f"{heads} heads with one query each and {keys} keys. Above, one block per head walks along all keys: {heads} "
        f"of {everyone} multiprocessors work. Below, each head's keys are cut into {splits} splits, one block each: "
        f"{heads * splits} blocks, work for all multiprocessors.")
    left, strip, row, across, cell = MARGIN, 320, 20, 16, 14
    grid = WIDTH - MARGIN - across * cell
    y = 36
    for words, pieces in (("One block per head", 1), (f"{splits} splits per head", splits)):
        blocks = heads * pieces
        busy = min(blocks, everyone)
        figure.text(left, y, words, bold=True)
        figure.text(left + strip, y, f"{keys} keys", anchor="end", colour="k")
        figure.text(grid, y, f"{busy} of {everyone} at work", bold=True)
        top = y + 16
        for h in range(heads):
            at = top + row * h
            for piece in range(pieces):
                x0, x1 = (left + strip * end / pieces for end in (piece, piece + 1))
                figure.rect(x0, at, x1 - x0, row - 6, fill="k", line="k", round_=0, width=1)
            if pieces == 1:
                figure.arrow((left + 6, at + 7), (left + strip - 8, at + 7), line="q", width=2, head=9)
        height = (row * heads - 6) / -(-everyone // across)
        for n in range(everyone):
            figure.rect(grid + cell * (n % across), top + height * (n // across), cell - 3, height - 3,
                        fill="plain!" if n < busy else "plain", round_=2)
        figure.text(left, top + row * heads + 18, colour="quiet",
                    words=f"{heads} × {pieces} = {blocks} blocks" if pieces > 1 else f"{blocks} blocks")
        figure.text(grid, top + row * heads + 18, "multiprocessors", colour="quiet")
        y = top + row * heads + 66
    return figure


def merge_splits():
    scores = [[0.6, 1.5, 0.2, 0.9], [2.2, 1.1, 2.6, 1.6], [0.3, 0.8, 0.1, 0.5], [1.9, 1.2, 0.7, 2.0]]
    values = [[1.0, 2.0, 3.0, 1.5], [7.0, 8.0, 9.0, 8.0], [4.0, 3.0, 4.0, 5.0], [5.0, 6.0, 4.0, 6.0]]
    parts = [state_of(s, v) for s, v in zip(scores, values, strict=True)]
    whole = State()
    for part in parts:
        whole = merge(whole, part)
    weights = [math.exp(part.lse - whole.lse) for part in parts]
    figure = Figure(
        "Merging partial results by their log-sum-exp",
        "Four splits of one row's keys, each with an output and a log-sum-exp: "
        + "; ".join(f"O = {part.out:.2f}, LSE = {part.lse:.2f}" for part in parts)
        + ". Their weights exp(LSE of the part - LSE of the whole) are "
        + ", ".join(f"{100 * weight:.0f} %" for weight in weights)
        + f". The merged output {whole.out:.2f} is the mean of the four with these weights.")
    across = WIDTH - 2 * MARGIN
    column, floor, unit = across / 4, 124, 26
    bar = floor + 148
    figure.text(MARGIN, 34, "A row's scores, in four splits: each block leaves O_p and LSE_p")
    at = MARGIN
    for p, (part, row, weight) in enumerate(zip(parts, scores, weights)):
        x, w = MARGIN + column * p, column - 14
        figure.polygon([(x, floor + 62), (x + w, floor + 62), (at + across * weight, bar), (at, bar)], fill="state",
                       opacity=0.5)
        for n, score in enumerate(row):
            figure.rect(x + w * n / 4 + 2, floor - unit * score, w / 4 - 4, unit * score, fill="s", line="s", round_=0)
        figure.line((x, floor), (x + w, floor))
        figure.text(x + w / 2, floor + 26, f"O = {part.out:.2f}", anchor="middle", colour="o")
        figure.text(x + w / 2, floor + 50, f"LSE = {part.lse:.2f}", anchor="middle", colour="state")
        at += across * weight
    at = MARGIN
    for weight in weights:
        figure.rect(at, bar, across * weight, 34, fill="state", line="state", round_=0)
        figure.text(at + across * weight / 2, bar + 23, f"{100 * weight:.0f} %", anchor="middle", bold=True)
        at += across * weight
    figure.text(MARGIN, bar + 62, f"Weights exp(LSE_p − LSE), with LSE = {whole.lse:.2f}", colour="state")

    figure.text(MARGIN, bar + 108, "The output is the mean of the four, by these weights")
    axis = bar + 164
    low, high = min(part.out for part in parts), max(part.out for part in parts)

    def position(value):
        return MARGIN + 40 + (across - 80) * (value - low) / (high - low)

    figure.line((position(low), axis), (position(high), axis), line="o", width=2.5)
    for part, weight in zip(parts, weights):
        figure.circle(position(part.out), axis, 16 * weight ** 0.5, fill="panel", line="o", width=2.5)
        figure.text(position(part.out), axis + 36, f"{part.out:.2f}", anchor="middle", colour="o")
    figure.circle(position(whole.out), axis, 9, fill="o!", line="o", width=2.5)
    figure.text(position(whole.out), axis - 22, f"O = {whole.out:.2f}", anchor="middle", colour="o", bold=True)
    return figure


FIGURES = {"split_keys": split_keys, "merge_splits": merge_splits}
STAIRS = (("split keys", "flash_decode_plain", "bf16 B8 H32/8 1x8192 D128"), ("… always reading", "flash_decode", "bf16 B8 H32/8 1x8192 D128"))
