"""Figures of phase 5: keys split over blocks, and the merge."""

import math

from constants import Source, default_device, device
from draw import MARGIN, WIDTH, Figure
from softmax import State, merge, state_of

PLAN = Source("phase5_decoding/split_plan.h")


def times_of_splits(blocks, keys, device, row_tile=1):
    """estimated_time() of phase5_decoding/split_plan.cpp, as a function of the splits, and what it is made of."""
    costs = Source("phase5_decoding/split_plan.cpp").expect(
        "full_waves = blocks / slots, rest = blocks % slots;",
        "{ return (work.key_tiles + splits - 1) / splits; }",
        "share_in_rest = std::max(double(rest) / double(slots), 1.0 / work.speed_alone);",
        "last_wave = rest == 0 ? 0.0 : tiles * share_in_rest + work.block_overhead;",
        "combine = splits == 1 ? 0.0 : kCombineLaunch + kMergePerSplit * splits;",
        "return double(full_waves) * (tiles + work.block_overhead) + last_wave + combine;")
    overhead, alone, launch, per_split = (source.number(name) for source, name in (
        (PLAN, "kBlockOverhead"), (PLAN, "kSpeedAlone"), (costs, "kCombineLaunch"), (costs, "kMergePerSplit")))
    slots = PLAN.found(r"resident_blocks\(int row_tile\) { return (.*?); }", row_tile=row_tile) * device.multiprocessors
    tiles = -(-keys // PLAN.number("kKeyTile"))

    def time(splits):
        full_waves, rest = divmod(blocks * splits, slots)
        each = -(-tiles // splits)
        last_wave = each * max(rest / slots, 1 / alone) + overhead if rest else 0
        return full_waves * (each + overhead) + last_wave + (launch + per_split * splits if splits > 1 else 0)

    return time, tiles, slots, overhead


def choose_splits(blocks, keys, device):
    """choose_splits() of phase5_decoding/split_plan.cpp, for blocks of one row."""
    time, tiles, _, _ = times_of_splits(blocks, keys, device)
    return min(range(1, min(tiles, PLAN.number("kMaxSplits")) + 1), key=time)


def waves():
    heads, keys, chosen = 8, 65536, device("t4")
    time, tiles, slots, overhead = times_of_splits(heads, keys, chosen, row_tile=4)
    best = min(range(1, tiles + 1), key=time)
    figure = Figure(
        "Waves of blocks",
        f"{heads} KV heads with {keys} keys on a {chosen.product}, which holds {slots} blocks at once. "
        + " ".join(f"{s} splits make {heads * s} blocks of {-(-tiles // s)} tiles and take {time(s):.1f} units of time."
                   for s in (best, best + 1, 64)))
    figure.text(MARGIN, 34, f"{slots} places, one above the other; time to the right, in tiles")
    height, shown = 84, [best, best + 1, 64]
    unit = (WIDTH - 2 * MARGIN) / (max(map(time, shown)) + 1)
    y = 62
    for splits in shown:
        blocks, each = heads * splits, -(-tiles // splits)
        full, rest = divmod(blocks, slots)
        figure.text(MARGIN, y + 8, f"{splits} splits: {blocks} blocks of {each} tiles", bold=True)
        figure.text(WIDTH - MARGIN, y + 8, f"time {time(splits):.1f}", anchor="end", bold=True,
                    colour="k" if splits == best else "wrong")
        top, x = y + 22, MARGIN
        for wave in range(full + (1 if rest else 0)):
            wide, used = unit * (each + overhead), height if wave < full else height * rest / slots
            if used < height:
                figure.rect(x, top, wide - 2, height, fill="plain", round_=2)
            figure.rect(x, top + height - used, wide - 2, used, fill="k", line="k", round_=2)
            if wide > 120 and used > 30:
                figure.text(x + wide / 2, top + height / 2 + 6, f"{slots if wave < full else rest} blocks", anchor="middle")
            elif wide > 120:
                figure.text(x + wide / 2, top + height / 2, f"{rest} blocks; {slots - rest} places idle", anchor="middle", size=16)
            x += wide
        figure.rect(x, top, max(unit * (time(splits) - full * (each + overhead) - (each + overhead if rest else 0)) - 1, 2), height,
                    fill="state!", round_=0)
        y = top + height + 40
    figure.rect(MARGIN, y - 20, 14, 16, fill="state!", round_=0)
    figure.text(MARGIN + 24, y - 6, "the merge, a launch of its own", size=16)
    return figure


def decode_owners():
    shape = Source("phase5_decoding/decode.cuh").expect(
        "lanes_per_row = D / V_width < 32 ? D / V_width : 32;", "rows_at_once = 32 / lanes_per_row;",
        "return s * rows_at_once + lane / lanes_per_row;")
    shape.expect("warp w takes keys [32 w, 32 w + 32) of each tile of 128")
    tile, threads, D, width = PLAN.number("kKeyTile"), PLAN.number("kDecodeThreads"), 64, 8
    warps, splits = threads // 32, 4
    lanes_per_row = min(D // width, 32)
    at_once = 32 // lanes_per_row
    figure = Figure(
        "Who owns which keys in decoding",
        f"A row's keys are cut into splits, one block each. A block takes tiles of {tile} keys, and each of its {warps} warps takes 32 "
        f"of them. For the scores a lane owns one key, a row of K. For P V, with D = {D} in 16 bits, {lanes_per_row} lanes lie side by "
        f"side along a row of V and {at_once} rows are read at once: a lane owns {width} columns of every {at_once}th key.")
    wide, x0 = WIDTH - 2 * MARGIN, MARGIN
    figure.text(x0, 34, "Grid: each block has a split of the keys", bold=True)
    y, h = 46, 30
    for s in range(splits):
        x = x0 + wide * s / splits
        figure.rect(x, y, wide / splits - 4, h, fill="k!" if s == 1 else "k", line="k")
        figure.text(x + wide / splits / 2 - 2, y + 21, f"split {s}", anchor="middle", size=16, colour="panel" if s == 1 else "ink")
    left, right = x0 + wide / splits, x0 + wide * 2 / splits - 4
    y2 = y + h + 66
    figure.polygon([(left, y + h), (right, y + h), (x0 + wide, y2), (x0, y2)], fill="k", opacity=0.45)
    figure.text(x0, y2 - 14, f"Warps: of each tile of {tile} keys, 32 each", bold=True)
    shown = 2 * warps
    for n in range(shown):
        x = x0 + wide * n / shown
        chosen = n == 1
        figure.rect(x, y2, wide / shown - 4, h, fill="k!" if chosen else "k", line="k")
        figure.text(x + wide / shown / 2 - 2, y2 + 21, f"w {n % warps}", anchor="middle", size=16, colour="panel" if chosen else "ink")
    for n in range(2):
        x = x0 + wide * n / 2
        figure.line((x + 2, y2 + h + 8), (x + wide / 2 - 6, y2 + h + 8), line="quiet")
        figure.text(x + wide / 4, y2 + h + 27, f"tile {n}", anchor="middle", size=16, colour="quiet")
    y3, row, half = y2 + h + 92, 7, (wide - 40) / 2
    left, right = x0 + wide / shown, x0 + wide * 2 / shown - 4
    figure.text(x0, y3 - 30, "Lanes of warp 1, for its 32 keys", bold=True)
    for side, (fill, words) in enumerate((("k", "K: lane 5 has key 5"), ("v", f"V: lane 5 has {width} columns"))):
        x = x0 + (half + 40) * side
        figure.text(x, y3 - 6, words, size=16, colour=fill)
        figure.rect(x, y3 + 4, half, 32 * row, fill=fill, line=fill, round_=2)
        for r in range(32):
            if side == 0 and r == 5:
                figure.rect(x, y3 + 4 + row * r, half, row, fill="k!", round_=0)
            if side == 1 and r % at_once == 5 // lanes_per_row:
                columns = half / lanes_per_row
                figure.rect(x + columns * (5 % lanes_per_row), y3 + 4 + row * r, columns, row, fill="v!", round_=0)
        figure.path("".join(f"M{x} {y3 + 4 + row * r}H{x + half:g}" for r in range(1, 32)), line="rule", width=0.5)
        figure.text(x, y3 + 32 * row + 26, "so scores need no shuffle" if side == 0 else f"of every {at_once}th key: a part of O", size=16, colour="quiet")
    return figure


def split_keys():
    heads, keys, chosen = 8, 4096, default_device()
    splits = choose_splits(heads, keys, chosen)
    everyone = chosen.multiprocessors
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
        + "; ".join(f"Ō = {part.out:.2f}, LSE = {part.lse:.2f}" for part in parts)
        + ". Their weights exp(LSE of the part - LSE of the whole) are "
        + ", ".join(f"{100 * weight:.0f} %" for weight in weights)
        + f". The merged output Ō = {whole.out:.2f} is the mean of the four with these weights.")
    across = WIDTH - 2 * MARGIN
    column, floor, unit = across / 4, 124, 26
    bar = floor + 148
    figure.text(MARGIN, 34, "A row's scores, in four splits: each block leaves Ō_p and LSE_p")
    at = MARGIN
    for p, (part, row, weight) in enumerate(zip(parts, scores, weights)):
        x, w = MARGIN + column * p, column - 14
        figure.polygon([(x, floor + 62), (x + w, floor + 62), (at + across * weight, bar), (at, bar)], fill="state",
                       opacity=0.5)
        for n, score in enumerate(row):
            figure.rect(x + w * n / 4 + 2, floor - unit * score, w / 4 - 4, unit * score, fill="s", line="s", round_=0)
        figure.line((x, floor), (x + w, floor))
        figure.text(x + w / 2, floor + 26, f"Ō = {part.out:.2f}", anchor="middle", colour="o")
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
    figure.text(position(whole.out), axis - 22, f"Ō = {whole.out:.2f}", anchor="middle", colour="o", bold=True)
    return figure


def copies_ahead():
    Source("phase5_decoding/decode_pipelined.cuh").expect(
        "fetch(K, first_key + Shape::ahead * step);", "fetch(V, first_key + Shape::ahead * step);")
    latency, ahead, end = 4, 4, 14   # tiles of time; tiles that are asked for before the first is used
    figure = Figure(
        "Copies ahead of their use",
        "Time to the right. Above, a warp asks for a tile, waits for it and uses it, and then asks for the next: memory is asked for one "
        f"tile at a time. Below, {ahead} tiles are under way at any time, and each use asks for the tile {ahead} further on: the warp uses "
        "one tile after the other.")
    left, row = MARGIN + 52, 26
    unit = (WIDTH - MARGIN - left) / end
    names = [f"{'KV'[n % 2]}_{n // 2}" for n in range(end)]

    def tile(y, n, asked, used):
        colour = "kv"[n % 2]
        figure.text(left - 12, y + 16, names[n], anchor="end", colour=colour)
        figure.rect(left + unit * asked, y, unit * (used - asked) - 1, row - 6, fill=colour, line=colour, dash="5 3", round_=2)
        figure.rect(left + unit * used, y, unit - 2, row - 6, fill=f"{colour}!", line=colour, round_=2)

    figure.text(MARGIN, 34, "Ask, wait, use", bold=True)
    figure.text(WIDTH - MARGIN, 34, "time →", anchor="end", colour="quiet")
    y, n, at = 50, 0, 0
    while at + latency + 1 <= end:
        tile(y, n, at, at + latency)
        y, n, at = y + row, n + 1, at + latency + 1
    used_above = n
    y += 30
    figure.text(MARGIN, y, f"Ask {ahead} tiles ahead", bold=True)
    y += 16
    for n in range(end - latency):
        tile(y, n, 0 if n < ahead else n - ahead + latency, n + latency)
        y += row
    figure.text(MARGIN, y + 22, f"In the same time the warp uses {used_above} tiles above, and {end - latency} below.")
    for x, words, fill, dash in ((MARGIN, "on its way", "k", "5 3"), (MARGIN + 180, "used", "k!", None)):
        figure.rect(x, y + 38, 28, 18, fill=fill, line="k", dash=dash, round_=2)
        figure.text(x + 38, y + 53, words, size=16)
    return figure


FIGURES = {"copies_ahead": copies_ahead, "split_keys": split_keys, "waves": waves, "decode_owners": decode_owners, "merge_splits": merge_splits}
STAIRS = (("split keys", "flash_decode_plain", "bf16 B8 H32/8 1x8192 D128"), ("… always reading", "flash_decode", "bf16 B8 H32/8 1x8192 D128"))
