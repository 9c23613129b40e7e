"""The exercises: reads <phase>/exercises/exercises.toml of each phase (in a hand-out: exercises.json) and makes starting points and
solutions of them. The format: README.md beside this file."""

import dataclasses
import functools
import json
import pathlib
import re
import sys
import tomllib

import given
import marks
import sealed

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests/mutants"
KNOWN_MISTAKES = pathlib.Path(__file__).resolve().parent / "known_mistakes.json"  # in hand-outs, which have no catalogue
IS_HAND_OUT = KNOWN_MISTAKES.exists()
KINDS = {"build": "build it", "fix": "fix it", "extend": "extend it"}
HINTS = 3


class ExerciseError(Exception):
    """What is wrong with the exercises' own files."""


def phases():
    """The folders of all phases, in order."""
    return (ROOT / "common/rung/phases.txt").read_text().split()


@dataclasses.dataclass(frozen=True)
class Budget:
    """What the kernel may cost, beside being right."""
    name: str         # in words: "K and V read once for each query tile"
    expression: str   # see budgets.py
    points: int = 10
    hint: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Exercise:
    phase: str        # folder
    number: int
    name: str         # a word for file names: online_update
    kind: str         # build, fix, extend
    title: str
    minutes: int
    file: str         # the learner's file, as it is included
    entry: str        # <phase>/exercises/<entry>_entry.cpp
    suite: dict       # what it is judged by
    task: str         # markdown
    hints: list
    points: int = 10  # for each property of the suite
    begins_with: list | None = None  # titles of checks that the starting point passes; where nobody has said, all checks count as one
    solution: list = dataclasses.field(default_factory=list)  # names of marks; build and extend
    mutant: str = ""  # of this phase's catalogue; fix
    also: list = dataclasses.field(default_factory=list)      # fix: more changes, [find, replace], so that comments do not tell
    hides: list = dataclasses.field(default_factory=list)     # names of marks that belong to other exercises, and are left out
    elsewhere: str = ""  # fix: what the wrong lines are for, in words that do not correct them; see given.py
    afterwards: str = ""  # markdown, once it is passed: answers to what the task asks
    budgets: list = dataclasses.field(default_factory=list)
    own_launch: bool = False  # the learner's file says how the kernel is launched; otherwise the starting point does
    launches: str = ""        # how many its kernels take, as an expression, where floors.py does not know
    start: str = ""   # in hand-outs: where the starting point lies ready
    sealed: str = ""  # in hand-outs: the part that waits for a word, until it is opened; see sealed.py

    @property
    def id(self):
        return f"{self.phase[len('phase'):].split('_')[0]}.{self.number}"

    @property
    def folder(self):
        """Of the learner's copy, in the workspace."""
        return f"{self.id}_{self.name}"

    @property
    def entry_file(self):
        return f"{self.phase}/exercises/{self.entry}_entry.cpp"

    def source(self):
        return marks.without((ROOT / self.file).read_text(), self.hides)

    def whole_start(self):
        """The starting point, with all that other exercises ask for."""
        text = self.source()
        if self.kind != "fix":
            return marks.starting_point(text, self.solution)
        text = mutant_named(f"{self.phase}/{self.mutant}").changed(text)
        for find, replace in self.also:
            if text.count(find) != 1:
                raise ExerciseError(f"{self.id}: also: this occurs {text.count(find)} times, not once: {find}")
            text = text.replace(find, replace)
        return marks.solution(text)

    def whole_solution(self):
        return marks.solution(self.source())

    @functools.cache
    def _folded(self, text):
        """(`text` as the learner sees it, {path: lines that are given}); see given.py."""
        return given.folded(text, given.hidden_from(self, read()), given.kept_lines(self, text))

    def starting_point(self):
        if self.sealed:
            raise ExerciseError(f"{self.id} is still sealed: your teacher has a word for `./ladder learn open {self.id} WORD`")
        return (ROOT / self.start).read_text() if self.start else self._folded(self.whole_start())[0]

    def solved(self):
        """The right file; None in a hand-out, which has none."""
        return None if self.start or self.sealed else self._folded(self.whole_solution())[0]

    @functools.cache
    def included_files(self):
        """Files of the repository that its entry includes, directly or not, besides the learner's own."""
        found, waiting = set(), [self.entry_file]
        while waiting:
            path = waiting.pop()
            text = self.starting_point() if path == self.file else (ROOT / path).read_text()
            for inner in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
                if inner not in found and (inner == self.file or (ROOT / inner).exists()):  # a hand-out has it elsewhere
                    found.add(inner)
                    waiting.append(inner)
        return frozenset(found - {self.file})

    def hint(self, level):
        """The `level`-th of its hints, counted from 1."""
        return sealed.unpacked(self.hints[level - 1], self.id) if self.start else self.hints[level - 1]

    def earned(self, titles):
        """What is said of it once checks with these titles, all there are, have passed."""
        if not self.start or not self.afterwards:
            return self.afterwards
        return sealed.unpacked(self.afterwards, key_of_the_passed(self, titles))

    def given_files(self, text):
        """{path: lines} of what a learner's `text` may include besides headers."""
        if self.start:
            return given.unpacked([text, *((ROOT / path).read_text() for path in self.included_files())], ROOT)
        return self._folded(self.whole_start())[1] | self._folded(self.whole_solution())[1]


def key_of_the_passed(exercise, titles):
    """The key to what a hand-out says of an exercise that is passed."""
    return "\n".join([exercise.id, *sorted(titles)])


def _catalogue():
    sys.path.insert(0, str(MUTANTS))
    import catalogue
    return catalogue


@functools.cache
def _mutants():
    phases, _ = _catalogue().read()
    return {f"{phase.folder}/{mutant.name}": mutant for phase in phases for mutant in phase.mutants}


def mutant_named(name):
    """An entry of the catalogue of wrong kernels, by "phase/name"."""
    if name not in _mutants():
        raise ExerciseError(f"the catalogue of wrong kernels has no {name}")
    return _mutants()[name]


def known_mistake(name):
    """(title, hint) of a mistake that the judge recognised."""
    if IS_HAND_OUT:
        return tuple(json.loads(KNOWN_MISTAKES.read_text())[name])
    phase, _, rest = name.partition("/exercises/")
    if not rest:
        mutant = mutant_named(name)
        return mutant.title, mutant.hint
    for mistake in exercise_mistakes(phase):
        if mistake["name"] == rest:
            return mistake["title"], mistake["hint"]
    raise ExerciseError(f"{phase}/exercises/exercises.toml has no mistake {rest}")


def exercise_mistakes(phase):
    """What people get wrong in kernels that only exercises have, and that the catalogue therefore lacks."""
    return tomllib.loads((ROOT / phase / "exercises/exercises.toml").read_text()).get("mistake", [])


def _read_phase(path):
    phase = path.parent.parent.name
    where = f"{phase}/exercises/{path.name}"
    try:
        table = (tomllib if path.suffix == ".toml" else json).loads(path.read_text())
    except ValueError as error:  # of both
        raise ExerciseError(f"{where} cannot be understood: {error}") from error
    known = {field.name for field in dataclasses.fields(Exercise)} - {"phase", "number", "budgets"} | {"budget"}
    exercises = []
    for number, entry in enumerate(table.get("exercise", []), 1):
        number = entry.pop("number", number)  # in hand-outs, where some are missing
        if (opened := path.parent / "opened" / f"{number}.json").exists():
            entry |= json.loads(opened.read_text()) | {"sealed": ""}
        here = f'{where}: exercise {number}: '
        if unknown := sorted(entry.keys() - known):
            raise ExerciseError(f"{here}unknown key {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        try:
            budgets = [Budget(**budget) for budget in entry.pop("budget", [])]
            exercise = Exercise(phase=phase, number=number, budgets=budgets, **entry)
        except TypeError as error:
            raise ExerciseError(f"{here}{error}") from error
        problems = []
        if exercise.kind not in KINDS:
            problems.append(f'kind is "{exercise.kind}"; accepted: {", ".join(KINDS)}')
        if not re.fullmatch(r"[a-z]\w*", exercise.name):
            problems.append(f'name is "{exercise.name}"; small letters, digits and _ make a file name')
        if len(exercise.hints) != HINTS and not exercise.sealed:
            problems.append(f"it has {len(exercise.hints)} hints; {HINTS}, each more concrete, are wanted")
        if not 10 <= exercise.minutes <= 45:
            problems.append(f"it takes {exercise.minutes} minutes; 10 to 45 are wanted")
        handed_out = exercise.start or exercise.sealed
        if not handed_out and (exercise.kind == "fix") != bool(exercise.mutant):
            problems.append("a fix takes a mutant, and nothing else does")
        if not handed_out and (exercise.kind == "fix") != bool(exercise.elsewhere):
            problems.append("a fix says what its lines do elsewhere, and nothing else does")
        if not handed_out and (exercise.kind != "fix") != bool(exercise.solution):
            problems.append("build and extend take the solution's marks, and fix does not")
        for file in (exercise.entry_file, exercise.sealed or exercise.start or exercise.file):
            if not (ROOT / file).exists():
                problems.append(f"there is no {file}")
        if problems:
            raise ExerciseError("\n".join(here + problem for problem in problems))
        exercises.append(exercise)
    return exercises


@functools.cache
def read():
    """All exercises, in order."""
    places = [ROOT / phase / "exercises" / f"exercises.{kind}" for kind in ("toml", "json") for phase in phases()]
    files = [path for path in places if path.exists()]
    if not files:
        raise ExerciseError("there are no exercises: no phase has an exercises/exercises.toml")
    return [exercise for path in files for exercise in _read_phase(path)]


def find(exercises, wanted):
    """The exercise that "3.1", "online_update" or "3.1_online_update" means."""
    found = [e for e in exercises if wanted in (e.id, e.name, e.folder)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ExerciseError(f'"{wanted}" is the name of several: {", ".join(e.id for e in found)}; say the number')
    raise ExerciseError(f'there is no exercise "{wanted}"; `./ladder learn` lists them: {exercises[0].id} to {exercises[-1].id}')
