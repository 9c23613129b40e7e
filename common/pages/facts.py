"""What the pages say in their own words, and a program can check: counts, shares, shapes of launches.

A fact is a sentence of a page with {} where its numbers stand, and a function that gives these numbers: from what the ladder
prints, from recorded speeds, or from the sources. refresh.py fails where the page says another number, and where it no longer has
the sentence, so whoever changes the sentence comes here too.
"""

import dataclasses
import functools
import importlib.util
import pathlib
import re
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/figures"))
import constants  # noqa: E402


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
    rounds = ["no", "one", "two", "three", "four", "five", "six"][constants.WARP.bit_length() - 1]
    return rounds, rounds


def tensor_core_phases(_):
    """The phases whose kernels multiply with mma.sync or wgmma, in themselves or in what they include."""
    def uses(file, seen):
        if file in seen or not (ROOT / file).is_file():
            return False
        seen.add(file)
        text = (ROOT / file).read_text()
        if re.search(r"simt::(mma|wgmma|multiply_async)\w*\(", re.sub(r"//.*", "", text)):
            return True
        return any(uses(name, seen) for name in re.findall(r'#include "((?:common/attention|phase\w+)/[^"]+)"', text))

    found = [folder.name[5] for folder in sorted(ROOT.glob("phase*_*"))
             if any(uses(str(file.relative_to(ROOT)), set()) for file in folder.glob("*.cuh"))]
    return (", ".join(found[:-1]) + " and " + found[-1],)


OF_THE_BOOK = (
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
