"""Figures of the primer: a GPU's memories, and how a warp reads them. The others show kernels, and are made in their phases."""

from constants import SECTOR_BYTES, WARP, default_device
from draw import MARGIN, WIDTH, Figure

KIB, MIB = 1024, 1024 * 1024


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


FIGURES = {"memories": memories, "coalescing": coalescing}
