"""Figures of the primer: the GPU and its memories."""

import json

from banks import draw_banks, passes
from constants import BANK_BYTES, BANKS, ROOT, SECTOR_BYTES, WARP, Source, default_device
from draw import MARGIN, WIDTH, Figure
from phase3 import FA2, fa2_tiles

KIB, MIB = 1024, 1024 * 1024


def tour_queries():
    """The shape of q in the tour: [B, Hq, Sq, D]."""
    tour = json.loads((ROOT / "docs/results/h200/tour.json").read_text())
    return next(phase["shapes"]["q"] for phase in tour["phases"] if phase["kernel"] == "fa2_forward")


def gpu():
    _, heads, length, head_dim = tour_queries()
    tiles = -(-length // fa2_tiles(head_dim)[0])
    threads = FA2.number("kFa2Threads")
    warps = threads // WARP
    figure = Figure(
        "Grid, block, warp, lane",
        f"A grid of {heads * tiles} blocks; one block enlarged, with {warps} warps and a shared memory; one warp "
        f"enlarged, with {WARP} lanes; one lane with registers of its own.")
    wide, words = 384, MARGIN + 384 + 28

    def explain(y, name, *lines):
        figure.text(words, y, name, bold=True)
        for n, line in enumerate(lines):
            figure.text(words, y + 24 * (n + 1), line, size=16, colour="quiet")

    def enlarge(left, right, y, to_left, to_right, to_y):
        figure.polygon([(left, y), (right, y), (to_right, to_y), (to_left, to_y)], fill="plain", opacity=0.6)

    cell, row, top = wide / heads, 26, 28
    explain(top + 16, "grid", f"{heads * tiles} blocks, in any", "order, on all", "multiprocessors")
    for t in range(tiles):
        for h in range(heads):
            enlarged = (h, t) == (2, tiles - 1)
            figure.rect(MARGIN + cell * h, top + row * t, cell - 5, row - 5, fill="plain!" if enlarged else "plain",
                        line="plain")

    block = top + row * tiles + 40
    enlarge(MARGIN + cell * 2, MARGIN + cell * 3 - 5, top + row * tiles - 4, MARGIN, MARGIN + wide, block)
    band, inside = 24, wide - 28
    height = band * warps + 62
    figure.rect(MARGIN, block, wide, height, fill="panel", line="plain", round_=6)
    explain(block + 22, "block", f"{threads} threads = {warps} warps,", "on one multiprocessor,",
            "with one shared", "memory")
    figure.rect(MARGIN + 14, block + 14, inside, 30, fill="plain", line="plain")
    figure.text(MARGIN + wide / 2, block + 34, "shared memory", anchor="middle", size=16)
    first_warp = block + 56
    for w in range(warps):
        for k in range(WARP):
            figure.rect(MARGIN + 14 + inside / WARP * k, first_warp + band * w, inside / WARP - 2, band - 7,
                        fill="plain!" if w == warps - 1 else "plain", line="plain", round_=1, width=1)

    warp, lane, chosen = block + height + 40, wide / WARP, 5
    enlarge(MARGIN + 14, MARGIN + 12 + inside, first_warp + band * warps - 6, MARGIN, MARGIN + wide - 2, warp)
    for k in range(WARP):
        figure.rect(MARGIN + lane * k, warp, lane - 2, 30, fill="plain!" if k == chosen else "plain", line="plain",
                    round_=1, width=1)
    explain(warp + 8, "warp", f"{WARP} lanes, one", "instruction for all")
    thread = warp + 94
    enlarge(MARGIN + lane * chosen, MARGIN + lane * (chosen + 1) - 2, warp + 31, MARGIN, MARGIN + 180, thread)
    figure.rect(MARGIN, thread, 180, 34, fill="plain", line="plain")
    figure.text(MARGIN + 90, thread + 22, "registers", anchor="middle", size=16)
    explain(thread + 8, "lane", "a thread, with registers", "of its own")
    return figure


def memories():
    device = default_device()
    registers, shared = device.registers * 4, device.block_bytes_optin
    figure = Figure(
        "The memories of a GPU",
        f"Of an {device.product}: registers, {registers // KIB} KiB on each of {device.multiprocessors} "
        f"multiprocessors, seen by one thread; shared memory, up to {shared // KIB} KiB for a block, seen by its "
        f"threads; the L2 cache, {device.l2_bytes // MIB} MiB, and global memory, {device.bandwidth_gb_s:g} GB/s, "
        "seen by all.")
    wide, words, top = 344, MARGIN + 344 + 40, 60
    figure.text(MARGIN, 34, f"{device.product}: {device.multiprocessors} multiprocessors")
    unit, gap = 104, 16
    for n in range(3):
        x = MARGIN + (unit + gap) * n
        figure.rect(x, top, unit, 152, fill="plain", line="plain", round_=6)
        for r in range(4):
            for c in range(8):
                held = "state" if c == 7 else "o"
                figure.rect(x + 13 + 10 * c, top + 12 + 13 * r, 7, 10, fill=held, line=held, round_=0, width=1)
        figure.rect(x + 10, top + 86, unit - 20, 54, fill="panel", line="plain")
        for name, at, w in (("q", 16, 22), ("k", 42, 11), ("v", 57, 11), ("s", 72, 16)):
            figure.rect(x + at, top + 94, w, 38, fill=name, line=name, round_=0)
        figure.arrow((x + unit / 2, top + 84), (x + unit / 2, top + 67), line="plain", width=2, head=8)
        figure.arrow((x + unit / 2, top + 183), (x + unit / 2, top + 155), line="plain", width=2.5)
    figure.text(MARGIN + wide + 4, top + 82, "…", anchor="start", size=21)
    figure.rect(MARGIN, top + 184, wide, 40, fill="plain", line="plain")
    figure.text(MARGIN + wide / 2, top + 209, "copies, kept for a while", anchor="middle", size=16)
    figure.arrow((MARGIN + wide / 2, top + 262), (MARGIN + wide / 2, top + 227), line="plain", width=5)
    figure.rect(MARGIN, top + 264, wide, 90, fill="panel", line="plain")
    for n, name in enumerate("QKVO"):
        figure.rect(MARGIN + 12 + 82 * n, top + 276, 74, 66, fill=name.lower(), line=name.lower(), round_=0)
        figure.text(MARGIN + 49 + 82 * n, top + 315, name, anchor="middle", bold=True, colour=name.lower())
    for y, name, size, seen in (
            (top + 14, "registers", f"{registers // KIB} KiB on each", "seen by one thread"),
            (top + 94, "shared memory", f"a block: to {shared // KIB} KiB", "seen by its threads"),
            (top + 188, "L2 cache", f"{device.l2_bytes // MIB} MiB", "works by itself"),
            (top + 284, "global memory", f"gigabytes, {device.bandwidth_gb_s:g} GB/s", "seen by everyone")):
        figure.text(words, y, name, bold=True)
        figure.text(words, y + 23, size, size=16)
        figure.text(words, y + 45, seen, size=16, colour="quiet")
    return figure


def coalescing():
    word = 4
    per_sector = SECTOR_BYTES // word
    figure = Figure(
        "Coalesced and scattered reads of a warp",
        f"{WARP} lanes read one float each. Neighbouring floats fill a few sectors of {SECTOR_BYTES} bytes. Floats "
        f"{per_sector} apart touch one sector for each lane, and most of what is fetched is thrown away.")
    across = 64
    cell = (WIDTH - 2 * MARGIN) / across
    y = 36
    for words_apart, title in ((1, "Lane *k* reads float *k*"), (per_sector, f"Lane *k* reads float {per_sector} *k*")):
        used = {k * words_apart for k in range(WARP)}
        sectors = sorted({w // per_sector for w in used})
        figure.text(MARGIN, y, title, bold=True)
        share = 100 * WARP * word / (len(sectors) * SECTOR_BYTES)
        figure.text(WIDTH - MARGIN, y, f"{len(sectors)} sectors fetched, {share:g} % used", anchor="end",
                    bold=True, colour="ink" if words_apart == 1 else "wrong")
        top, row = y + 18, 30
        lines = max(1, len(sectors) * per_sector // across)
        for line in range(lines):
            for sector in range(across // per_sector):
                x = MARGIN + cell * per_sector * sector
                number = line * across // per_sector + sector
                for w in range(per_sector):
                    at = number * per_sector + w
                    fill = "plain!" if at in used else "wrong" if number in sectors else None
                    if fill:
                        figure.rect(x + cell * w, top + row * line, cell, 22, fill=fill, round_=0)
                figure.rect(x, top + row * line, cell * per_sector, 22, line="plain" if number in sectors else "rule",
                            round_=0)
        y = top + row * lines + 40
    y -= 8
    for x, fill, line, words in ((MARGIN, "plain!", None, "read by a lane"),
                                 (206, "wrong", None, "fetched for nothing"),
                                 (416, None, "plain", f"a sector, {SECTOR_BYTES} bytes")):
        figure.rect(x, y - 13, 16, 16, fill=fill, line=line, round_=0)
        figure.text(x + 24, y, words, size=16)
    return figure


def banks():
    standard = Source("phase1_naive/standard.cuh")
    side = standard.number("kResultTile")
    padded = standard.found(r"using RightTile = .*?kResultTile, (kResultTile[^>]*)>")
    cell = 8.5
    figure = Figure(
        "Bank conflicts of a walk down a column",
        f"{WARP} lanes write one column of a tile, lane k in row k. With rows {side} floats apart all lanes meet in "
        f"one bank; with rows {padded} floats apart each meets a bank of its own.")
    figure.text(MARGIN, 34, f"{WARP} lanes write a column of a tile, lane *k* in row *k*")
    for x, apart, colour in ((MARGIN, side, "wrong"), (WIDTH - MARGIN - cell * BANKS, padded, "plain")):
        firsts = [apart * k for k in range(WARP)]
        turns = passes(firsts, 1)
        figure.text(x, 70, f"Rows {apart} floats apart", bold=True)
        draw_banks(figure, x, 108, cell, cell, firsts, 1, f"{colour}!")
        figure.text(x, 108 + cell * WARP + 28, f"{turns} passes" if turns > 1 else "1 pass", bold=True, colour=colour)
        figure.text(x + cell * BANKS, 108 + cell * WARP + 28, f"{BANKS} banks of {BANK_BYTES} bytes",
                    anchor="end", size=15, colour="quiet")
    return figure


FIGURES = {"gpu": gpu, "memories": memories, "coalescing": coalescing, "banks": banks}
