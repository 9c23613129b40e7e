"""Figures of phase 7: attention by Hopper's warpgroups."""

import re

from constants import Missing, Source
from draw import MARGIN, WIDTH, Figure

LESSON = Source("phase7_hopper/hopper.cuh")
TURNS = Source("phase7_hopper/hopper_turns.cuh")
OVERLAPPED = Source("phase7_hopper/hopper_overlapped.cuh")
PARTS = Source("phase7_hopper/hopper_parts.cuh")
PIPELINE = Source("common/attention/warpgroup_pipeline.cuh")
NOTES = Source("docs/tuning/phase7.md")
D = 128  # of the examples

STAIRS = (("in order", "hopper_plain_forward", "bf16 B2 H16 N8192 D128"), ("a producer, turns", "hopper_turns_forward", "bf16 B2 H16 N8192 D128"),
          ("softmax under products", "hopper_overlapped_forward", "bf16 B2 H16 N8192 D128"),
          ("weights in parts", "hopper_forward", "bf16 B2 H16 N8192 D128"))

# What a multiprocessor of an H100 or H200 does in a cycle, for 16-bit elements.
MULTIPLY_ADDS, EXPONENTIALS, SHARED_BYTES = 2048, 16, 128


def warpgroups(source, struct, **known):
    """Consumers and keys of a kernel's shape."""
    return source.number("consumers", within=struct, **known), source.number("B_c", within=struct, **known)


def parts_of(head_dim):
    """Keys, and parts of the weights, of hopper_parts.cuh."""
    found = re.search(rf"struct HopperPartsFor<{head_dim}> {{\s*using Shape = HopperParts<{head_dim}, (\d+), (\d+)>;", PARTS.text)
    if not found:
        raise Missing(f"{PARTS.path} has no HopperPartsFor<{head_dim}>; figures show its tiles")
    return int(found.group(1)), int(found.group(2))


def share(words):
    """The share of 4096 FLOP a cycle that docs/tuning/phase7.md has for a step of D 128, no mask, 8k."""
    found = re.search(rf"^\| {re.escape(words)} \| [^|]* \| \**([\d.]+)", NOTES.text, re.MULTILINE)
    if not found:
        raise Missing(f'{NOTES.path} has no step "{words}"; a figure shows how long it takes')
    return float(found.group(1)) / 100


def products(head_dim, groups, keys):
    """Cycles of a step's products: 64 rows of each warpgroup times a tile of keys, twice."""
    return 2 * 64 * groups * keys * head_dim // MULTIPLY_ADDS


def exponentials(groups, keys):
    return 64 * groups * keys // EXPONENTIALS


def shared_memory(head_dim, groups, keys):
    """Cycles in which a step's products read their operands there, and TMA writes K_j and V_j."""
    piece = 2 * 16 * 64  # of Q_i for one wgmma
    of_scores = head_dim // 16 * (piece + 2 * 16 * keys)
    of_values = keys // 16 * (2 * 16 * head_dim)  # P_ij comes from registers
    return (groups * (of_scores + of_values) + 2 * 2 * keys * head_dim) // SHARED_BYTES


def hopper_costs():
    """What a step of each kernel takes of three units."""
    rows = []
    for head_dim, name, groups, keys in ((D, "hopper", 1, LESSON.number("B_c", within="struct HopperLesson", D=D)),
                                         (D, "hopper_turns", *warpgroups(TURNS, "struct HopperTurns", D=D)),
                                         (D, "hopper_parts", PARTS.number("consumers"), parts_of(D)[0]),
                                         (64, "hopper_parts", PARTS.number("consumers"), parts_of(64)[0]),
                                         (256, "hopper_overlapped", *warpgroups(OVERLAPPED, "struct HopperOverlapped", D=256))):
        rows.append((head_dim, name, groups, keys, products(head_dim, groups, keys), exponentials(groups, keys),
                     shared_memory(head_dim, groups, keys)))
    percent = [tuple(int(100 * cycles / row[4] + 0.5) for cycles in row[4:]) for row in rows]
    figure = Figure(
        "What a step takes of the tensor cores, the exponentials and shared memory",
        "One group of bars for each kernel and head dimension, in cycles relative to those of its products: "
        + "; ".join(f"D {head_dim}, {64 * groups} queries by {keys} keys: products {cycles} cycles, exponentials {of[1]} %, shared memory {of[2]} %"
                    for (head_dim, _, groups, keys, cycles, *_), of in zip(rows, percent)) + ".")
    left, right, bar = 262, WIDTH - MARGIN, 17
    scale = (right - left) / max(max(of) for of in percent)
    figure.text(MARGIN, 36, "Time of a step, relative to its products")
    for x, colour, words in ((MARGIN, "plain", "products"), (MARGIN + 118, "state", "exponentials"), (MARGIN + 268, "k", "shared memory")):
        figure.rect(x, 54, 16, 16, fill=f"{colour}!", round_=0)
        figure.text(x + 24, 68, words, size=16)
    y, height = 96, 3 * bar + 22
    at = left + scale * 100
    figure.line((at, 86), (at, y + height * len(rows) - 14), line="wrong", width=1.5, dash="5 4")
    for (head_dim, name, groups, keys, cycles, *_), of in zip(rows, percent):
        figure.text(MARGIN, y + 20, f"*D* {head_dim}, {64 * groups} × {keys}", bold=True)
        figure.text(MARGIN, y + 43, f"`{name}`", size=15, colour="quiet")
        for n, (colour, p) in enumerate(zip(("plain", "state", "k"), of)):
            figure.rect(left, y + n * (bar + 2), scale * p, bar, fill=f"{colour}!", round_=0)
            figure.text(left + scale * p - 8, y + n * (bar + 2) + 13, f"{cycles} cycles" if n == 0 else f"{p} %", size=15, anchor="end",
                        colour="panel")
        y += height
    return figure


class Strip:
    """A stretch of time with a lane for each unit."""

    def __init__(self, figure, top, left, cycles, title, busy):
        self.figure, self.top, self.left, self.cycles = figure, top, left, cycles
        self.scale = (WIDTH - MARGIN - left) / cycles
        figure.text(MARGIN, top, title, bold=True)
        figure.text(WIDTH - MARGIN, top, busy, anchor="end", bold=True, colour="s")

    def lane(self, n, words):
        y = self.top + 14 + 30 * n
        self.figure.text(MARGIN, y + 19, words, size=15, colour="quiet")
        self.figure.line((self.left, y + 26), (WIDTH - MARGIN, y + 26), line="rule", width=0.75)

    def box(self, n, begin, end, words, colour, strong=False):
        if begin >= self.cycles:
            return
        end = min(end, self.cycles)
        x, w, y = self.left + self.scale * begin, self.scale * (end - begin), self.top + 14 + 30 * n
        self.figure.rect(x + 0.5, y, w - 1, 26, fill=f"{colour}!" if strong else colour, line=colour, round_=2, width=1)
        if w > 24 + 7 * max(0, len(words) - 2):
            self.figure.text(x + w / 2, y + 18, words, size=15, anchor="middle", colour="panel" if strong else "ink")


def hopper_strips():
    """The same work in three orders."""
    in_order = share("one warpgroup, everything in order, TMA, 64 queries (two or three blocks on a multiprocessor)")
    turns = share("and turns around the exponentials (cuDNN's shape)")
    overlap = share("the same without the anchor")
    keys = LESSON.number("B_c", within="struct HopperLesson", D=D)
    if (2, keys) != warpgroups(TURNS, "struct HopperTurns", D=D) or (2, keys) != warpgroups(OVERLAPPED, "struct HopperOverlapped", D=D):
        raise Missing("hopper_strips draws kernels with the same tiles; they are no longer the same")
    LESSON.expect("begin_scores(S_ij, Q_i, owner, K_j); simt::wait_products<0>(S_ij);")
    TURNS.expect("simt::sync_threads(1 + consumer, 256);", "simt::arrive_threads(1 + other, 256);")
    OVERLAPPED.expect("simt::wait_products<1>(S_ij);", "simt::wait_products<0>(O_i, P_ij);")
    product = products(D, 1, keys) // 2
    both = products(D, 2, keys)
    # As long as what was measured says. In turns a step of both is two softmaxes, one after the other.
    softmax = both / turns / 2
    copies = both / in_order - 2 * product - softmax
    shared_softmax = both / overlap - product  # at the same time as the other warpgroup's
    cycles = 2 * both / in_order
    figure = Figure(
        "Three orders of the same work",
        f"Time runs to the right, {cycles:.0f} cycles of D {D} and tiles of {keys} keys; the lengths are those that explain what was measured. First, one "
        "warpgroup: copies, product, softmax, product, one after the other. Second, a producer and two warpgroups whose softmaxes take "
        "turns: one's products run beside the other's softmax. Third, each warpgroup asks for the scores of the next tile and the "
        "output of this one together, and its softmax runs beside its own product, too.")
    left = 132

    one = Strip(figure, 36, left, cycles, "In order", f"tensor cores busy {100 * in_order:.0f} %, two blocks")
    for n, words in enumerate(("TMA", "tensor cores", "threads")):
        one.lane(n, words)
    at = 0.0
    while at < cycles - 1:
        one.box(0, at, at + copies, "K, V", "k")
        one.box(1, at + copies, at + copies + product, "S", "s")
        one.box(2, at + copies + product, at + copies + product + softmax, "softmax", "state")
        one.box(1, at + copies + product + softmax, at + copies + 2 * product + softmax, "O", "o")
        at += copies + 2 * product + softmax

    two = Strip(figure, 174, left, cycles, "Turns", f"busy {100 * turns:.0f} %")
    for n, words in enumerate(("tensor cores", "warpgroup 1", "warpgroup 2")):
        two.lane(n, words)
    # Steady from the first step: warpgroup 2 is half a step behind.
    for w in range(2):
        begin = w * softmax - 2 * softmax
        while begin < cycles:
            if begin >= 0:
                two.box(1 + w, begin, begin + softmax, "softmax", "state")
            after = begin + softmax
            if after >= 0:
                two.box(0, after, after + product, f"O{w + 1}", "o")
                two.box(0, after + product, after + 2 * product, f"S{w + 1}", "s")
            begin += 2 * softmax

    three = Strip(figure, 312, left, cycles, "Overlap in each warpgroup", f"busy {100 * overlap:.0f} %")
    for n, words in enumerate(("tensor cores", "warpgroup 1", "warpgroup 2")):
        three.lane(n, words)
    step = product + shared_softmax
    for w in range(2):
        begin = w * step / 2 - step
        while begin < cycles:
            if begin >= 0:
                three.box(0, begin, begin + product, f"S{w + 1}", "s")
                three.box(0, begin + product, begin + 2 * product, f"O{w + 1}", "o")
            softmax_begin = max(begin + product, 0)
            if begin + step > 0:
                three.box(1 + w, softmax_begin, begin + step, "softmax", "state")
            begin += step
    return figure


def hopper_stages():
    """Who tells whom what, and the parities of a ring."""
    stages = TURNS.number("stages", within="struct HopperTurns")
    consumers = TURNS.number("consumers", within="struct HopperTurns")
    clearing = PIPELINE.number("kClearingWarps")
    PIPELINE.expect("constexpr int consumer_warps = 4 * Shape::consumers;", "K_full[s].init(1);", "V_full[s].init(1);",
                    "K_empty[s].init(consumer_warps);", "V_empty[s].init(consumer_warps);", "V_clear[s].init(kClearingWarps);",
                    "empty[at.stage].wait(at.parity ^ 1);")
    TURNS.expect("pipeline.K_full[k.stage].wait(k.parity);")
    warps, tiles = 4 * consumers, 6
    figure = Figure(
        "A ring of stages, its barriers and their parities",
        f"Above, a producer, {stages} stages of K_j with a barrier full and a barrier empty each, and {consumers} consumer warpgroups. The producer "
        f"arrives once at full and announces bytes, which TMA delivers; one lane of each of {warps} consumer warps arrives at empty. Below, for "
        f"the first {tiles} tiles: the stage, the parity with which consumers wait at full, and the parity with which the producer waits at empty: "
        + "; ".join(f"tile {n}: stage {n % stages}, {n // stages % 2} and {n // stages % 2 ^ 1}" for n in range(tiles)) + ".")
    top, height = 78, 62
    figure.text(MARGIN, 40, f"K_{{j}} in {stages} stages; V_{{j}} has a ring of its own, just like it")
    producer, ring, consumer = MARGIN, 232, WIDTH - MARGIN - 112
    bottom = top + stages * (height + 26) - 26
    figure.rect(producer, top, 112, bottom - top, fill="plain", line="plain")
    figure.text(producer + 56, (top + bottom) / 2 - 4, "producer", anchor="middle", bold=True)
    figure.text(producer + 56, (top + bottom) / 2 + 18, "one lane", anchor="middle", size=15)
    figure.rect(consumer, top, 112, bottom - top, fill="s", line="s")
    figure.text(consumer + 56, (top + bottom) / 2 - 4, "consumers", anchor="middle", bold=True)
    figure.text(consumer + 56, (top + bottom) / 2 + 18, f"{warps} warps", anchor="middle", size=15)
    for s in range(stages):
        y = top + s * (height + 26)
        figure.rect(ring, y, 150, height, fill="k", line="k")
        figure.text(ring + 75, y + 36, f"stage {s}", anchor="middle", bold=True)
        figure.arrow((producer + 116, y + 16), (ring - 4, y + 16), line="k", width=2.5)
        figure.text((producer + 112 + ring) / 2, y + 8, "asks", size=15, anchor="middle", colour="k")
        figure.arrow((ring - 4, y + 46), (producer + 116, y + 46), line="plain", dash="4 4")
        figure.text((producer + 112 + ring) / 2, y + 66, f"empty: {warps}", size=15, anchor="middle", colour="quiet")
        figure.arrow((ring + 154, y + 16), (consumer - 4, y + 16), line="k", width=2.5)
        figure.text((ring + 150 + consumer) / 2, y + 8, "full: 1, bytes", size=15, anchor="middle", colour="k")
        figure.arrow((consumer - 4, y + 46), (ring + 154, y + 46), line="plain", dash="4 4")
        figure.text((ring + 150 + consumer) / 2, y + 66, "done", size=15, anchor="middle", colour="quiet")
    y, left, row = bottom + 54, 222, 30
    cell = (WIDTH - MARGIN - left) / tiles
    named = (("tile, as asked for", lambda n: f"{n}", None), ("stage", lambda n: f"{n % stages}", None),
             ("consumers wait at full", lambda n: f"{n // stages % 2}", "k"),
             ("producer waits at empty", lambda n: f"{n // stages % 2 ^ 1}", "plain"))
    for r, (words, of, colour) in enumerate(named):
        figure.text(MARGIN, y + row * r + 20, words, size=15, bold=r == 0)
        for n in range(tiles):
            fill = None if colour is None else f"{colour}!" if of(n) == "1" else colour
            figure.rect(left + cell * n, y + row * r, cell, row, fill=fill, line="rule", round_=0, width=0.75)
            first = r == 3 and n < stages
            figure.text(left + cell * (n + 0.5), y + row * r + 20, f"{of(n)}*" if first else of(n), size=16, anchor="middle", bold=r == 0,
                        colour="panel" if fill and fill.endswith("!") else "ink")
    figure.text(MARGIN, y + row * 4 + 26, "* nobody has used the stage: parity 1 lets the producer pass a new barrier", size=15, colour="quiet")
    return figure


def hopper_weights():
    """A thread's scores, the operands that they become, and which product runs when."""
    keys, parts = parts_of(D)
    Source("common/simt/matrix/wgmma_cuda.h").expect("operand.set(r, pack<T>(s[8 * k + 2 * r], s[8 * k + 2 * r + 1]));")
    PARTS.expect("weigh<part>(S_ij, rows, owner, scale, j * B_c, n * part);", "to_operands(P_ij[n], S_ij, n * part);",
                 "begin_more_values(O_i, P_ij[n], V_j, n * part);")
    operands, part = keys // 16, keys // 16 // parts
    figure = Figure(
        "A thread's weights, in parts",
        f"Above, the {keys // 2} scores of a thread in {operands} groups of eight: two rows, 16 keys. Each group becomes the four registers of one operand, two "
        f"elements each, without a move between threads. {part} operands are a part. Below, time: while the exponentials of one part are "
        "computed, the tensor cores multiply the part before with V_j.")
    left = 124
    cell = (WIDTH - MARGIN - left) / operands
    figure.text(MARGIN, 36, "What one thread holds of S_{ij}, and of P_{ij}")
    for k in range(operands):
        x = left + cell * k
        figure.text(x + cell / 2, 66, f"{16 * k}", size=15, colour="quiet", anchor="middle")
        figure.rect(x + 2, 76, cell - 4, 54, fill="s" if k // part % 2 == 0 else None, line="s")
        figure.text(x + cell / 2, 98, f"S[{8 * k}]", size=15, anchor="middle")
        figure.text(x + cell / 2, 120, f"…{8 * k + 7}", size=15, anchor="middle")
        figure.arrow((x + cell / 2, 134), (x + cell / 2, 158), line="s")
        figure.rect(x + 2, 162, cell - 4, 34, fill="s!" if k // part % 2 == 0 else "s", line="s")
        figure.text(x + cell / 2, 184, f"P[{k}]", size=15, anchor="middle", colour="panel" if k // part % 2 == 0 else "ink")
    figure.text(left - 12, 66, "from key", size=15, colour="quiet", anchor="end")
    figure.text(left - 12, 104, "8 floats", size=15, anchor="end")
    figure.text(left - 12, 184, "4 registers", size=15, anchor="end")
    for n in range(parts):
        x0, x1 = left + cell * part * n + 6, left + cell * part * (n + 1) - 6
        figure.line((x0, 202), (x0, 208), (x1, 208), (x1, 202), line="plain")
        figure.text((x0 + x1) / 2, 226, f"part {n}", size=15, anchor="middle", colour="quiet")
    top = 282
    figure.text(MARGIN, top - 14, "Time →", colour="quiet")
    # A part's exponentials and what belongs to them take longer than its product: what was measured, see hopper_strips.
    of_product = part * 16 * D * 64 // MULTIPLY_ADDS
    of_weights = (products(D, 2, keys) / share("and turns around the exponentials (cuDNN's shape)") / 2) / (parts + 1)
    first = products(D, 1, keys) // 2
    total = first + of_weights * (parts + 1) + of_product
    scale = (WIDTH - MARGIN - left) / total
    for n, words in enumerate(("tensor cores", "threads")):
        figure.text(MARGIN, top + 42 * n + 24, words, size=15)
        figure.line((left, top + 42 * n + 36), (WIDTH - MARGIN, top + 42 * n + 36), line="rule", width=0.75)

    def box(lane, begin, cycles, words, colour):
        figure.rect(left + scale * begin + 0.5, top + 42 * lane, scale * cycles - 1, 36, fill=colour, line=colour, round_=2, width=1)
        figure.text(left + scale * (begin + cycles / 2), top + 42 * lane + 24, words, size=15, anchor="middle")

    box(0, 0, first, "S", "s")
    box(1, first, of_weights, "maxima", "state")
    for n in range(parts):
        begin = first + of_weights * (n + 1)
        box(1, begin, of_weights, f"exp {n}", "state")
        box(0, begin + of_weights, of_product, f"{n}", "o")
    figure.text(MARGIN, top + 112, f"0 to {parts - 1}: O_{{i}} += P_{{ij}} V_{{j}}, a part of {16 * part} keys each", size=16)
    return figure


FIGURES = {"hopper_costs": hopper_costs, "hopper_strips": hopper_strips, "hopper_stages": hopper_stages, "hopper_weights": hopper_weights}
