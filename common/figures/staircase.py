"""The staircase: how far each rung gets on one GPU, from its recorded speeds. Phases name their steps: STAIRS in rung/figures.py."""

import dataclasses
import json

import rooms
from constants import ROOT, Missing
from draw import MARGIN, WIDTH, Figure

RECORDS = "docs/results/h200/bench*.json"  # each with the ceilings of its own run
LEFT, ROW = 262, 31
ACROSS = WIDTH - MARGIN - 62 - LEFT  # pixels for 100 %; what is beyond has room too
PEERS = {"torch": "PyTorch", "flash": "flash", "cuDNN": "cuDNN"}
MULTIPLY = "TFLOP/s"


@dataclasses.dataclass(frozen=True)
class Step:
    phase: str       # its number
    label: str
    case: dict       # of a record
    measurement: dict
    ceilings: dict   # of the same record

    @property
    def multiplies(self):
        return self.case["unit"] == MULTIPLY

    def share(self, measurement=None):
        """Of what the device can do in 16 bits: of its fastest product of matrices, or of what its memory delivers."""
        return (measurement or self.measurement)["rate"] / self.ceilings["gemm_bf16" if self.multiplies else self.case["ceiling"]]


def steps():
    """Every step that a phase names, from the first rung to the last."""
    reports = [json.loads(file.read_text()) for file in sorted(ROOT.glob(RECORDS))]
    found = []
    for phase in rooms.phases():
        script = rooms.script(phase)
        for label, kernel, problem in getattr(script, "STAIRS", ()):
            number = phase.removeprefix("phase").split("_")[0]
            both = [Step(number, label, case, m, {c["name"]: c["rate"] for c in report["ceilings"]})
                    for report in reports for case in report["cases"] if case["problem"]["text"] == problem
                    for m in case["measurements"] if m["name"] == kernel and "rate" in m]
            if not both:
                raise Missing(f"{RECORDS} have no {kernel} on {problem}; a step of {phase} shows it")
            found.append(both[0])
    return found


def panel(figure, y, title, colour, rows, clear=0.0):
    """Bars under a title, words to the right of `clear`; gives where the next thing may begin."""
    figure.text(MARGIN, y, title, bold=True, colour=colour)
    top = y + 14
    bottom = top + ROW * len(rows) + 4
    for percent in (0, 25, 50, 75, 100):
        x = LEFT + ACROSS * percent / 100
        figure.line((x, top), (x, bottom), line="rule", width=1, dash=None if percent in (0, 100) else "3 5")
        figure.text(x, bottom + 17, f"{percent} %", size=15, anchor="middle", colour="quiet")
    for n, step in enumerate(rows):
        base, reached = top + ROW * n + 7, step.share()
        figure.text(MARGIN, base + 15, step.phase, bold=True, size=16)
        figure.text(MARGIN + 22, base + 15, step.label, size=16)
        figure.rect(LEFT, base, max(2, ACROSS * reached), 20, fill=colour + "!", round_=2)
        best = max((step.share(m) for m in step.case["measurements"] if m["name"] in PEERS and "rate" in m), default=0)
        if best:
            x = LEFT + ACROSS * best
            figure.line((x, base - 3), (x, base + 23), line="ink", width=3)
        words = f"{100 * reached:.0f} %" if reached >= 0.1 else f"{100 * reached:.1f} %"
        inside = reached > 0.2
        end = LEFT + ACROSS * (reached if inside else max(reached, clear))
        if inside and 0 < end - (mark := LEFT + ACROSS * best) < 50:
            end = mark - 2
        figure.text(end - 6 if inside else end + 7, base + 15, words, size=15, anchor="end" if inside else "start",
                    bold=True, colour="panel" if inside else "ink")
    return bottom + 50


def staircase():
    of_memory = [step for step in steps() if not step.multiplies]
    multiplied = [step for step in steps() if step.multiplies]
    said = [f"phase {step.phase}, {step.label}: {100 * step.share():.1f} %" for step in multiplied + of_memory]
    figure = Figure("How far each rung gets on an H200", "Share of what the device can do. " + "; ".join(said) + ". A mark shows the best of PyTorch's own.")
    ceilings = multiplied[0].ceilings
    only = ceilings["gemm_f32"] / ceilings["gemm_bf16"]
    speeds = sorted({f"{step.ceilings['gemm_bf16']:.0f}" for step in multiplied})  # of each record's run
    y = panel(figure, 38, f"Share of a 16-bit matrix product's speed ({' to '.join(speeds)} TFLOP/s)", "q", multiplied, only)
    x, slow = LEFT + ACROSS * only, next(n for n, step in enumerate(multiplied) if step.measurement["rate"] > ceilings["gemm_f32"])
    figure.line((x, 48), (x, 55 + ROW * slow), line="wrong", width=2, dash="6 4")
    figure.text(x + 70, 78, f"{100 * only:.0f} %: all that multipliers", size=15, colour="wrong")
    figure.text(x + 70, 98, "without tensor cores can do", size=15, colour="wrong")
    y = panel(figure, y, "Share of the memory's speed, where only that counts", "k", of_memory)
    figure.line((MARGIN + 4, y - 20), (MARGIN + 4, y - 2), line="ink", width=3)
    figure.text(MARGIN + 16, y - 6, "the best of PyTorch's own on the same work in 16 bits", size=15, colour="quiet")
    figure.text(MARGIN, y + 18, "* float32 in and out; all others take 16 bits", size=15, colour="quiet")
    return figure


FIGURES = {"staircase": staircase}
