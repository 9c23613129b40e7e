"""What the pages say in their own words, and a program can check: counts, shares, shapes of launches.

A fact is a sentence of a page with {} where its numbers stand, and a function that gives these numbers: from what the ladder
prints, from recorded speeds, or from the sources. refresh.py fails where the page says another number, and where it no longer has
the sentence, so whoever changes the sentence comes here too.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import io
import math
import pathlib
import re
import runpy
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/figures"))
import constants  # noqa: E402
import staircase  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Fact:
    page: str
    sentence: str                 # {} for each number; space of any width stands for space of any width
    numbers: Callable             # of the ladder: the texts that belong into the places


def launch(ladder, arguments, kernel):
    """The lines of `ladder profile ARGUMENTS` about one kernel."""
    lines = ladder.lines(f"profile {arguments}")
    start = next(i for i, line in enumerate(lines) if line.strip().startswith(f"{kernel}<"))
    end = next((i for i in range(start + 1, len(lines)) if "   grid " in lines[i]), len(lines))
    return lines[start:end]


def grid(ladder, arguments, kernel):
    return [int(n) for n in re.search(r"grid (\d+) x (\d+) x (\d+)", launch(ladder, arguments, kernel)[0]).groups()]


def times_read(ladder, arguments, kernel, tensor):
    """How often a kernel reads a tensor as a whole."""
    row = next(line.split() for line in launch(ladder, arguments, kernel) if line.split()[:1] == [tensor])
    return row[3]


def warp_sum(_):
    """Shuffles of a sum over a warp, and additions: one of each for each doubling of the step."""
    constants.Source("common/attention/warp_reduce.cuh").expect(
        "for (int step = 1; step < Lanes; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);")
    rounds = NUMBERS[constants.WARP.bit_length() - 1]
    return rounds, rounds


def tensor_core_phases(_):
    """The phases whose kernels multiply with mma.sync, or begin products of wgmma, in themselves or in what they include."""
    def uses(file, seen):
        if file in seen or not (ROOT / file).is_file():
            return False
        seen.add(file)
        text = (ROOT / file).read_text()
        if re.search(r"simt::(mma_m\w+|begin_products|multiply)\b", re.sub(r"//.*", "", text)):
            return True
        return any(uses(name, seen) for name in re.findall(r'#include "((?:common/attention|phase\w+)/[^"]+)"', text))

    found = [folder.name[5] for folder in sorted(ROOT.glob("phase*_*"))
             if any(uses(str(file.relative_to(ROOT)), set()) for file in folder.glob("*.cuh"))]
    return (", ".join(found[:-1]) + " and " + found[-1],)


def ran(program):
    """What a program beside the pages computes, its names and their values."""
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(ROOT / program))


def row_of_it(name):
    """The row of "it" in the first chapter's example, as its program prints it."""
    def numbers(_):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(ROOT / "docs/attention/four_tokens.py"))
        row = next(line.split() for line in printed.getvalue().splitlines() if line.startswith("it"))
        at = row.index(name) + 1
        return row[at:at + 4]
    return numbers


def exponentials_of_it(ladder):
    scores = [float(s) for s in row_of_it("S")(ladder)]
    weights = [math.exp(s - max(scores)) for s in scores]
    return *(f"{w:.3f}".replace("1.000", "1") for w in weights), f"{sum(weights):.3f}"


def device_of_the_cost(_):
    """The H200's speeds as its profile has them, and operations in the time of a byte."""
    entry = re.search(r'\.name = "h200",(.*?)\}\)', (ROOT / "common/simt/device/device_profile.cpp").read_text(), re.DOTALL)[1]
    tensor, bandwidth = (float(re.search(rf"\.{field} = ([\d.]+)", entry)[1]) for field in ("fp16_tensor_tflops", "memory_bandwidth_gb_s"))
    return f"{int(tensor)}", f"{bandwidth:.0f}", f"{1000 * int(tensor) / bandwidth:.0f}"


def cost_of_scores(_):
    cost = ran("docs/attention/cost.py")
    micro = [1e6 * (cost["needed"] + cost["scores"]) / cost["bandwidth"], 1e6 * cost["operations"] / cost["products"]]
    return (f"{cost['scores'] // cost['needed']}", *(f"{t:.0f}" for t in micro))


def stairs(_):
    """Of the staircase: the first step that multiplies, the highest of them, the highest backward, and the highest of each phase where memory
    counts."""
    percent = [(step, f"{100 * step.share():.0f}") for step in staircase.steps()]
    multiplied = [p for step, p in percent if step.multiplies]
    backward = [p for step, p in percent if step.case["problem"]["text"].endswith(" bwd")]
    best = {step.phase: max((p for other, p in percent if other.phase == step.phase), key=int) for step, _ in percent if not step.multiplies}
    return (multiplied[0], max(multiplied, key=int), max(backward, key=int), *best.values())


NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def phases():
    return (ROOT / "common/rung/phases.txt").read_text().split()


OF_THE_BOOK = (
    Fact("README.md", "builds it step by step, in C++ and CUDA: {} chapters", lambda _: [NUMBERS[len(phases())]]),
    Fact("docs/attention.md", "Every phase from 0 to {} is a chapter with a kernel.", lambda _: [f"{len(phases()) - 1}"]),
    Fact("README.md", "from {} % for the textbook's attention to {} % on Hopper, and {} % backward; {} and {} % of the memory's speed", stairs),
    Fact("docs/attention.md", "| exponential | {} | {} | {} | {} | l = {} |", exponentials_of_it),
    Fact("docs/attention.md", "| weight | {} | {} | {} | {} | 1 |", row_of_it("P")),
    Fact("docs/attention.md", "0.237 · 4 = {}. \"It\"", lambda ladder: [f"{float(row_of_it('O')(ladder)[0]):.2f}"]),
    Fact("docs/attention.md", "at {} TFLOP/s (10^12 operations per second), and moves {} GB/s (10^9 bytes per second). So it computes {} operations",
         device_of_the_cost),
    Fact("docs/attention.md", "The scores, which nobody asked for, are {} times what must be moved. Because of them the GPU spends {} µs on memory where its products take {} µs", cost_of_scores),
    Fact("docs/glossary.md", "Kernels of phases {} use it", tensor_core_phases),
    Fact("docs/primer.md", "this sum takes {} shuffles and {} additions", warp_sum),
)


def of_phases():
    """The facts of the phases' own pages, and of others about their kernels: FACTS of phase*/rung/facts.py."""
    for file in sorted(ROOT.glob("phase*/rung/facts.py")):
        module = importlib.util.module_from_spec(found := importlib.util.spec_from_file_location(f"{file.parts[-3]}_facts", file))
        found.loader.exec_module(module)
        yield from module.FACTS


@functools.cache
def all_facts():
    return (*OF_THE_BOOK, *of_phases())


def problems(page, text, ladder):
    """What a page says and is not so, with line numbers; `page` is its path from the root."""
    found = []
    for fact in all_facts():
        if fact.page != page:
            continue
        pattern = r"([^\n|]{1,40}?)".join(re.escape(part) for part in fact.sentence.split("{}"))
        pattern = re.sub(r"(\\ )+", r"\\s+", pattern)
        said = list(re.finditer(pattern, text))
        if len(said) != 1:
            found.append(f'1: {len(said)} sentences say "{fact.sentence}", not one; common/pages/facts.py or rung/facts.py of a phase checks it')
            continue
        line = text.count("\n", 0, said[0].start()) + 1
        try:
            true = tuple(fact.numbers(ladder))
        except (StopIteration, AttributeError, constants.Missing) as problem:
            found.append(f'{line}: nothing that the ladder prints, or the sources say, has the numbers of "{fact.sentence}": {problem}')
            continue
        if said[0].groups() != true:
            found.append(f'{line}: "{" ".join(said[0].group(0).split())}" is not so: it is {", ".join(true)}')
    return found
