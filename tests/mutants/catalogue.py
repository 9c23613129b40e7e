"""The catalogue of wrong kernels: reads it, checks it, and says which programs run it. Its format: README.md beside this.

  python3 catalogue.py check                          every mistake in the catalogue; exit code 1 if there is one
  python3 catalogue.py programs [PHASE…] [--part K/N] the programs that run these phases' wrong kernels
"""

import argparse
import dataclasses
import keyword
import pathlib
import re
import sys

try:
    import tomllib
except ImportError:
    sys.exit("the catalogue of wrong kernels needs Python 3.11 or newer (its tomllib); this is " + sys.version.split()[0])

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHASES = "common/rung/phases.txt"  # their folders, one a line
CATALOGUE = "rung/mutants.toml"    # in a phase's folder
TRIALS = "rung/trials.cpp"         # beside it: what the phase's kernels are put through
HOST_CATALOGUE = "rung/host_mutants.toml"  # of a phase's host code, where that has enough of its own
HOST_TRIALS = "rung/host_trials.cpp"

ELEMENTS = ("f32", "f16", "bf16")
TILE_HEAD_DIMS = (32, 128, 256)  # that kernels of register tiles are compiled for
MMA_HEAD_DIMS = (32, 64)  # that kernels on tensor cores are compiled for
WARPGROUP_HEAD_DIMS = (64, 192)  # that kernels of warpgroups are compiled for
REFERENCE = "reference"  # the result is not what the reference says
LAUNCH = "launch"        # the device refuses the launch
MUTANTS_PER_PROGRAM = 24  # they share the time that headers take to compile, and PyTorch to link

SHARED = "attention"  # the chapter of what phases share, and of their host entries
SHARED_CATALOGUE = f"tests/mutants/catalogue/{SHARED}.toml"
SHARED_TRIALS = f"tests/mutants/{SHARED}_trials.cpp"


HOST = "_host"  # what the chapter of a phase's host code is called after the phase


def chapter_of(mutant):
    """Where a mutant's entry stands, and what it is put through."""
    if mutant.phase == SHARED:
        return SHARED_CATALOGUE, SHARED_TRIALS
    if mutant.phase.endswith(HOST):
        room = mutant.phase.removesuffix(HOST)
        return f"{room}/{HOST_CATALOGUE}", f"{room}/{HOST_TRIALS}"
    return f"{mutant.phase}/{CATALOGUE}", f"{mutant.phase}/{TRIALS}"


class CatalogueError(Exception):
    """What is wrong with the catalogue, one finding a line."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A phase's kernels, or a file of host code, with one change."""
    phase: str  # SHARED for host code
    name: str
    title: str
    misconception: str
    why: str
    hint: str
    file: str
    find: str
    replace: str
    caught_by: str
    times: int = 1
    element: str = "f32"
    tile_head_dim: int = 32
    mma_head_dim: int = 32
    warpgroup_head_dim: int = 64
    kernel: str | None = None  # the only one of the phase's kernels that has the change

    def changed(self, text):
        """The text of `file` with the change."""
        occurrences = text.count(self.find)
        if occurrences != self.times:
            raise CatalogueError(f"its text occurs {occurrences} times in {self.file}, not {self.times}: "
                                 f"did the kernel change? Let `find` (or `times`) follow it. It looks for:\n"
                                 f"      {self.find.strip()}")
        return text.replace(self.find, self.replace)


@dataclasses.dataclass(frozen=True)
class Phase:
    folder: str
    kernels: list  # the files that the phase compiles, without .cuh
    mutants: list

    def programs(self):
        """The wrong kernels by the program that runs them."""
        groups = range(0, len(self.mutants), MUTANTS_PER_PROGRAM)
        return {f"mutants_{self.folder}_{n + 1}": self.mutants[first:first + MUTANTS_PER_PROGRAM]
                for n, first in enumerate(groups)}

    def elements(self):
        """The element types that the phase's mutants are compiled for; float32 first."""
        return [e for e in ELEMENTS if any(m.element == e for m in self.mutants)] or ["f32"]

    def reached(self, mutant, root=ROOT):
        """The kernels that have the change."""
        return [k for k in self.kernels
                if mutant.kernel in (None, k) and mutant.file in included(f"{self.folder}/{k}.cuh", root)]

    def catalogue(self):
        return f"{self.folder}/{CATALOGUE}"

    def trials(self):
        return f"{self.folder}/{TRIALS}"


@dataclasses.dataclass(frozen=True)
class HostCode(Phase):
    """Host code with one change each. It has no switchboard: a program holds the changed file in the place of the right
    one, with all phases and their right kernels."""
    folder: str = SHARED
    kernels: list = dataclasses.field(default_factory=list)
    mutants: list = dataclasses.field(default_factory=list)
    room: str = SHARED  # the phase whose host code it is, or what phases share

    def programs(self):
        """The first has no change: it shows that the trials are sound."""
        return {f"mutants_{self.folder}_original": []} | {f"mutants_{self.folder}_{m.name}": [m] for m in self.mutants}

    def catalogue(self):
        return SHARED_CATALOGUE if self.room == SHARED else f"{self.room}/{HOST_CATALOGUE}"

    def trials(self):
        return SHARED_TRIALS if self.room == SHARED else f"{self.room}/{HOST_TRIALS}"


def faults(root=ROOT):
    """The enumerators of simt::Fault, in order."""
    body = re.search(r"enum class Fault \{(.*?)\}", (root / "common/simt/report/machine_error.h").read_text(), re.DOTALL)
    return re.findall(r"^\s*(\w+),", body.group(1), re.MULTILINE)


def included(file, root=ROOT):
    """`file` and the .cuh files that it includes, directly or not, in the order in which a compiler meets their ends."""
    found = []

    def visit(path):
        for inner in re.findall(r'^#include "([^"]+\.cuh)"', (root / path).read_text(), re.MULTILINE):
            if inner not in found:
                visit(inner)
        if path not in found:
            found.append(path)

    visit(file)
    return found


def phase_folders(root=ROOT):
    return (root / PHASES).read_text().split()


class _Checker:
    """Reads the files of the catalogue and collects what is wrong with them."""

    TEXTS = ("name", "title", "misconception", "why", "hint", "file", "find", "caught_by")
    LONGEST_TITLE = 70

    def __init__(self, root):
        self.root, self.problems = root, []
        self.accepted_checks = [REFERENCE, LAUNCH, *faults(root)]

    def phase(self, folder):
        where = f"{folder}/{CATALOGUE}: "
        if not (self.root / folder / CATALOGUE).exists():
            self.problems.append(f"{where}there is none; every phase has a catalogue of its wrong kernels")
            return None
        try:
            table = tomllib.loads((self.root / folder / CATALOGUE).read_text())
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"{where}not TOML: {error}")
            return None
        for key in table.keys() - {"kernels", "mutant"}:
            self.problems.append(f'{where}unknown key "{key}"; "kernels" and [[mutant]] are known')
        kernels = table.get("kernels", [])
        for kernel in kernels:
            if not (self.root / folder / f"{kernel}.cuh").exists():
                self.problems.append(f'{where}"kernels" names {kernel}, but there is no {folder}/{kernel}.cuh')
        if not kernels:
            self.problems.append(f'{where}"kernels" is missing: the .cuh files that the phase compiles')
        if self.problems:
            return None
        files = self.files(folder, kernels)
        return Phase(folder, kernels, self.entries(where, table, lambda entry: (folder, files)))

    def files(self, folder, kernels):
        """By kernel, the files that it is made of."""
        return {k: set(included(f"{folder}/{k}.cuh", self.root)) for k in kernels}

    def shared(self, phases):
        """The chapter of shared code: its host code, and by phase the changes in headers, which that phase's kernels
        show."""
        where = f"{SHARED_CATALOGUE}: "
        try:
            table = tomllib.loads((self.root / SHARED_CATALOGUE).read_text())
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"{where}not TOML: {error}")
            return HostCode(), []
        kernels = {p.folder: self.files(p.folder, p.kernels) for p in phases}
        host = {str(path.relative_to(self.root)) for folder in ("common/attention", *kernels)
                for path in (self.root / folder).glob("*.cpp") if not path.name.endswith("_test.cpp")}

        def place(entry):
            phase = entry.get("phase")
            return (SHARED, {None: host}) if phase is None else (phase, kernels.get(phase, {}))

        mutants = self.entries(where, table, place)
        for mutant in mutants:
            if any(mutant.name == other.name for p in phases if p.folder == mutant.phase for other in p.mutants):
                self.problems.append(f'{where}mutant "{mutant.name}": {mutant.phase} has one of that name')
        return HostCode(mutants=[m for m in mutants if m.phase == SHARED]), [m for m in mutants if m.phase != SHARED]

    def host_code(self, room):
        """A phase's host code: its own files, and those that carry tensors between ranks."""
        catalogue = f"{room}/{HOST_CATALOGUE}"
        try:
            table = tomllib.loads((self.root / catalogue).read_text())
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"{catalogue}: not TOML: {error}")
            return HostCode(folder=room + HOST, room=room)
        host = {str(path.relative_to(self.root)) for folder in ("common/distributed", room)
                for path in (self.root / folder).glob("*.cpp") if not path.name.endswith("_test.cpp")}
        folder = room + HOST
        return HostCode(folder=folder, room=room,
                        mutants=self.entries(f"{catalogue}: ", table, lambda entry: (folder, {None: host})))

    def entries(self, where, table, place):
        """The mutants of a file. `place` says for an entry whose they are and, by kernel, which files they may change."""
        mutants, names, changes = [], set(), {}
        for number, entry in enumerate(table.get("mutant", []), 1):
            name = entry.get("name") or f"number {number}"
            mutant = self.entry(f'{where}mutant "{name}": ', entry, *place(entry))
            if name in names:
                self.problems.append(f'{where}mutant "{name}": the name is taken; each needs its own')
            names.add(name)
            change = tuple(entry.get(key) for key in ("phase", "file", "find", "replace", "element", "tile_head_dim", "mma_head_dim",
                                                       "warpgroup_head_dim", "kernel"))
            if change in changes:
                self.problems.append(f'{where}mutant "{name}": the same change as "{changes[change]}"')
            changes[change] = name
            if mutant:
                mutants.append(mutant)
        return mutants

    def entry(self, where, entry, phase, files):
        """The mutant; nothing if the entry cannot be understood."""
        fields = {field.name for field in dataclasses.fields(Mutant)} - {"phase"}
        entry = {key: value for key, value in entry.items() if key != "phase" or value != phase}
        before = len(self.problems)
        for key in sorted(entry.keys() - fields):
            self.problems.append(f'{where}unknown key "{key}"; known: {", ".join(sorted(fields))}')
        for key in (*self.TEXTS, "replace"):
            if not isinstance(entry.get(key), str):
                self.problems.append(f'{where}"{key}" is missing; it takes a text')
            elif key != "replace" and not entry[key].strip():
                self.problems.append(f'{where}"{key}" is empty')
        times = entry.get("times", 1)
        if not isinstance(times, int) or isinstance(times, bool) or times < 1:
            self.problems.append(f'{where}"times" is {times!r}; a number from 1 on is accepted')
        if len(self.problems) > before:
            return None
        if not re.fullmatch(r"[A-Za-z]\w*", entry["name"]) or keyword.iskeyword(entry["name"]) or \
                entry["name"].startswith("original"):
            self.problems.append(f'{where}the name becomes a C++ namespace: letters, digits and underscores, and not '
                                 '"original", which is the right kernel')
        if len(entry["title"]) > self.LONGEST_TITLE:
            self.problems.append(f'{where}the title has {len(entry["title"])} letters; {self.LONGEST_TITLE} fit a report')
        if entry["caught_by"] not in self.accepted_checks:
            self.problems.append(f'{where}caught_by is "{entry["caught_by"]}"; accepted: {", ".join(self.accepted_checks)}')
        if entry.get("element", "f32") not in ELEMENTS:
            self.problems.append(f'{where}element is "{entry["element"]}"; accepted: {", ".join(ELEMENTS)}')
        if entry.get("tile_head_dim", 32) not in TILE_HEAD_DIMS:
            self.problems.append(f'{where}tile_head_dim is {entry["tile_head_dim"]!r}; accepted: '
                                 f'{", ".join(map(str, TILE_HEAD_DIMS))}')
        if entry.get("mma_head_dim", 32) not in MMA_HEAD_DIMS:
            self.problems.append(f'{where}mma_head_dim is {entry["mma_head_dim"]!r}; accepted: '
                                 f'{", ".join(map(str, MMA_HEAD_DIMS))}')
        if entry.get("warpgroup_head_dim", 64) not in WARPGROUP_HEAD_DIMS:
            self.problems.append(f'{where}warpgroup_head_dim is {entry["warpgroup_head_dim"]!r}; accepted: '
                                 f'{", ".join(map(str, WARPGROUP_HEAD_DIMS))}')
        if "kernel" in entry and entry["kernel"] not in files:
            self.problems.append(f'{where}kernel is {entry["kernel"]!r}; the phase has {", ".join(filter(None, files))}')
        reached = files.get(entry.get("kernel"), set().union(*files.values()))
        if entry["find"] == entry["replace"]:
            self.problems.append(f'{where}"find" and "replace" are the same')
        if entry["file"] not in reached:
            self.problems.append(f'{where}file is "{entry["file"]}"; files of this phase\'s kernels: '
                                 f'{", ".join(sorted(reached))}')
        if len(self.problems) > before:
            return None
        mutant = Mutant(phase=phase, **entry)
        try:
            mutant.changed((self.root / mutant.file).read_text())
        except CatalogueError as error:
            self.problems.append(where + str(error))
        return mutant


def read(root=ROOT):
    """All phases of the catalogue and the chapter of host code, and what is wrong with it. Entries that cannot be understood
    are left out; one whose text is not in the kernel any more is not, since the kernel may get it back at any time."""
    checker = _Checker(root)
    phases, problems = [], []
    for folder in phase_folders(root):
        checker.problems = []
        if phase := checker.phase(folder):
            phases.append(phase)
        problems += checker.problems
    if (root / SHARED_CATALOGUE).exists():
        checker.problems = []
        host_code, in_headers = checker.shared(phases)
        for mutant in in_headers:
            next(phase for phase in phases if phase.folder == mutant.phase).mutants.append(mutant)
        phases.append(host_code)
        problems += checker.problems
    for folder in phase_folders(root):
        if (root / folder / HOST_CATALOGUE).exists():
            checker.problems = []
            phases.append(checker.host_code(folder))
            problems += checker.problems
    return phases, problems


def select(phases, chosen, part):
    """{program: its mutants} of the chosen phases (none: all), or of one part (k, n) of them."""
    programs = {}
    for phase in phases:
        if not chosen or phase.folder in chosen or getattr(phase, "room", None) in chosen:
            programs |= phase.programs()
    if part is None:
        return programs
    k, n = part
    if n > len(programs):
        raise CatalogueError(f"--part {k}/{n}: there are {len(programs)} programs to share out; "
                             f"1/1 to {len(programs)}/{len(programs)} are accepted")
    return {name: programs[name] for name in list(programs)[k - 1::n]}


def part(text):
    """K/N as a pair."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f'"{text}" is not K/N with 1 <= K <= N, such as 2/5')
    return int(match[1]), int(match[2])


def add_selection(parser):
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"folders of phases, or {SHARED}; none: all")
    parser.add_argument("--part", type=part, metavar="K/N", help="only the K-th of N parts")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="every mistake in the catalogue")
    add_selection(commands.add_parser("programs", help="the programs that run these wrong kernels"))
    arguments = parser.parse_args()

    phases, problems = read()
    if arguments.command == "check":
        for problem in problems:
            print(problem)
        print(f"{sum(len(phase.mutants) for phase in phases)} wrong kernels, {len(problems)} mistakes in their catalogue")
        return 1 if problems else 0
    print("\n".join(select(phases, arguments.phases, arguments.part)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CatalogueError as error:
        sys.exit(str(error))
