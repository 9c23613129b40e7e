"""./ladder student-copy: a folder to hand out, which has exercises and no solutions, and builds and judges by itself."""

import dataclasses
import functools
import json
import pathlib
import re
import shutil

import exercises
import grade
import marks
import sealed
import workbench
from exercises import ROOT
from terminal import paint

# Whole folders and files that a hand-out consists of, beside what its exercises include and what the phases bring to the judge.
# common/ has no kernel of a phase.
WHOLE = ("common/attention", "common/classroom", "common/cmake", "common/distributed", "common/fixture", "common/fuzz",
         "common/reference", "common/simt", "common/torch")
FILES = ("ladder", "LICENSE", "LICENSE-docs", "CMakePresets.json", ".gitignore", "common/CMakeLists.txt", "common/rung/phases.txt",
         "docs/attention/four_tokens.py", "docs/attention/cost.py")
PAGES = ("docs/attention.md", "docs/primer.md", "docs/cpu_machine.md", "docs/notation.md", "docs/numerics.md", "docs/glossary.md")
LEFT_OUT = ("common/classroom/answer_key.py", "common/classroom/student_copy.py")  # need the solutions
QUOTED_CODE = re.compile(r"(<!-- code: [^\n]*-->\n)(```.*?\n```)(\n<!-- end -->)", re.DOTALL)

BUILD_FILE = """cmake_minimum_required(VERSION 3.25)
project(FlashLadderExercises LANGUAGES CXX)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_BUILD_TYPE Release)
set(CMAKE_CXX_FLAGS_RELEASE "-O1")
set(LADDER_FAST_OPTIONS -O2)
set(LADDER_CHECKS ON)

list(APPEND CMAKE_MODULE_PATH "${PROJECT_SOURCE_DIR}/common/cmake")
include(LadderTorch)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

add_subdirectory(common)
add_subdirectory(common/classroom)
"""

FRONT_PAGE = """# FlashLadder: exercises

FlashAttention, one rung at a time. You write the kernels; a checked CPU machine runs them, says what is wrong and where, and
counts what they read and write. No GPU is needed.

```sh
./ladder learn              # the exercises, and how far you are
./ladder learn start {first}    # gives you a file to work on, and the task
./ladder learn check        # builds it and tries it
./ladder learn hint         # stuck? Three hints each, the first gives little away
./ladder learn open E WORD  # some exercises are sealed: your teacher has the words
./ladder grade              # points for everything you have done
```

On Debian 12 and Ubuntu 24.04 the first run installs what is missing (g++, cmake, ninja, libtorch, …) and builds, which takes a
few minutes. Your files lie in `workspace/`; nothing else is handed in.

The chapters: {chapters}. Where they quote what you are to write yourself, the quotation is left out.
"""


class HandoutError(Exception):
    """What cannot be handed out, and why."""


def included_files(exercise):
    """Files of the repository that the exercise's entry includes, directly or not, besides the learner's own."""
    found, waiting = set(), [exercise.entry_file]
    while waiting:
        path = waiting.pop()
        text = exercise.starting_point() if path == exercise.file else (ROOT / path).read_text()
        for inner in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            if inner not in found and (ROOT / inner).exists():
                found.add(inner)
                waiting.append(inner)
    return found - {exercise.file}


def secrets(exercise):
    """The lines that are its solution and nothing else's: what no hand-out with this exercise may show."""
    text = exercise.source()
    if exercise.kind == "fix":
        before, after = exercise.starting_point().splitlines(), exercise.solved().splitlines()
        return {line.strip() for line in after if line not in before and len(re.sub(r"\W", "", line)) > 8}
    shown = {line.strip() for line in exercise.starting_point().splitlines()}
    return {line for line in marks.solution_lines(text, exercise.solution)} - shown


def texts_for(exercise):
    """What a learner gets to do this exercise."""
    return list(files_for(exercise).values())


def shared_texts_for(exercise):
    """And of that, what lies where all phases find it."""
    return [text for path, text in files_for(exercise).items() if path.startswith(WHOLE)]


def show(texts, secret_lines):
    """Whether the texts have more than half of these lines. (A line or two alike is found between any two kernels.)"""
    shown = {line.strip() for text in texts for line in text.splitlines()}
    return 2 * len(shown & secret_lines) > len(secret_lines)


def to_be_written(chosen):
    """Of those that are to be written; the line that mends a wrong kernel stands in every right one."""
    return [exercise for exercise in chosen if exercise.kind != "fix"]


def give_away(chosen):
    """{exercise: others whose solution its files show}. A later phase's own files may show what earlier phases asked for; headers
    that phases share may not."""
    found = {}
    for exercise in chosen:
        texts, shared = texts_for(exercise), shared_texts_for(exercise)
        others = [other for other in to_be_written(chosen)
                  if other is not exercise and show(texts if other.phase == exercise.phase else shared, secrets(other))]
        if others:
            found[exercise] = others
    return found


def sealed_until(shown_by):
    """{exercise: earlier ones}: an exercise waits for those before it whose solution it shows. One that comes first has to show
    something of the others, since its kernel must run."""
    def place(exercise):
        return exercise.phase, exercise.number

    earlier = {exercise: [other for other in others if place(other) < place(exercise)] for exercise, others in shown_by.items()}
    return {exercise: others for exercise, others in earlier.items() if others}


def copy_file(path, target):
    destination = target / path
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / path, destination)


def copy_tree(folder, target):
    shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "workspace"))


def page_without(text, secret_lines):
    """A chapter whose quotations of code show none of these lines."""
    def kept(match):
        if {line.strip() for line in match[2].splitlines()} & secret_lines:
            return match[1] + "*(Yours to write: see the exercises.)*" + match[3]
        return match[0]

    return QUOTED_CODE.sub(kept, text)


def start_path(exercise):
    return f"{exercise.phase}/exercises/start/{exercise.folder}/{pathlib.Path(exercise.file).name}"


def description(exercise):
    """What the hand-out says of an exercise before it is begun: exercises.toml without what points to the solution."""
    table = {field.name: getattr(exercise, field.name) for field in dataclasses.fields(exercise)}
    for key in ("phase", "solution", "mutant", "also", "hides", "budgets", "task", "hints", "afterwards", "start", "sealed"):
        del table[key]
    return table | {"budget": [dataclasses.asdict(budget) for budget in exercise.budgets]}


def inner_part(exercise, hints):
    """And what it says once it is."""
    no_more = ["This hand-out has no more hints: ask your teacher."] * (exercises.HINTS - hints)
    return {"task": exercise.task, "hints": exercise.hints[:hints] + no_more, "afterwards": exercise.afterwards,
            "start": start_path(exercise)}


@functools.cache
def learners_files():
    """What some exercise asks to be written: a phase's kernels, and a few headers that phases share."""
    return {exercise.file for exercise in exercises.read()}


def files_for(exercise):
    """{path: text} of what it needs from its phase, and of what other exercises ask for."""
    needed = {path: marks.solution((ROOT / path).read_text()) for path in included_files(exercise)
              if path.startswith("phase") or path in learners_files()}
    return needed | {start_path(exercise): exercise.starting_point()}


def known_mistakes():
    """{name: [title, hint]} of all that the judge recognises by its results."""
    return {name: list(exercises.known_mistake(name)) for name in workbench.lookalikes()}


def write_files(files, target):
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)


def as_json(data):
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def write(chosen, words, target, hints):
    """`words`: {exercise: word} of those that are handed out sealed."""
    for folder in WHOLE:
        copy_tree(folder, target)
    for part in (f"{phase}/rung/judge" for phase in exercises.phases()):
        if (ROOT / part).is_dir():
            copy_tree(part, target)
    for path in FILES:
        copy_file(path, target)
    for path in (*LEFT_OUT, *(path for path in learners_files() if path.startswith(WHOLE))):
        (target / path).unlink()
    hidden = set().union(*(secrets(exercise) for exercise in chosen))
    for path in PAGES:
        write_files({path: page_without((ROOT / path).read_text(), hidden)}, target)

    phases = sorted({exercise.phase for exercise in chosen})
    for phase in phases:
        write_files({f"{phase}/README.md": page_without((ROOT / phase / "README.md").read_text(), hidden)}, target)
        tables = []
        for exercise in (e for e in chosen if e.phase == phase):
            copy_file(exercise.entry_file, target)
            part, files = inner_part(exercise, hints), files_for(exercise)
            if word := words.get(exercise.id):
                place = f"{phase}/exercises/sealed/{exercise.number}.json"
                write_files({place: as_json(sealed.seal(part | {"files": files}, word))}, target)
                tables.append(description(exercise) | {"task": "", "hints": [], "sealed": place})
            else:
                write_files(files, target)
                tables.append(description(exercise) | part)
        write_files({f"{phase}/exercises/exercises.json": as_json({"exercise": tables})}, target)
    chapters = ", ".join(f"[phase {phase[5]}]({phase}/README.md)" for phase in phases)
    first = next((exercise.id for exercise in chosen if exercise.id not in words), chosen[0].id)
    write_files({f"common/classroom/{exercises.KNOWN_MISTAKES.name}": as_json(known_mistakes()), "CMakeLists.txt": BUILD_FILE,
                 "README.md": FRONT_PAGE.format(first=first, chapters=chapters)}, target)


def leaked(chosen, waiting, target):
    """[(exercise, file)] where a file shows the solution of an exercise, other than those that an open one before it needs. There
    should be none."""
    found = []
    for exercise in to_be_written(chosen):
        before = [other for other in chosen if other.phase == exercise.phase and other.number < exercise.number and other not in waiting]
        needed = set().union(*(files_for(other) for other in before))
        for path in sorted([*(target / exercise.phase).rglob("*"), *(target / "common/attention").rglob("*")]):
            name = str(path.relative_to(target))
            if path.is_file() and path.suffix in (".cuh", ".h", ".cpp", ".md") and name not in needed \
                    and show([path.read_text()], secrets(exercise)):
                found.append((exercise.id, name))
    return found


def add_arguments(parser):
    parser.add_argument("folder", metavar="DIR", help="a folder that does not exist yet, or is empty")
    parser.add_argument("--exercises", nargs="+", metavar="E", default=[], help="numbers, names or phases (\"3\"); all if not given")
    parser.add_argument("--hints", type=int, choices=range(exercises.HINTS + 1), default=exercises.HINTS,
                        help="how many of the three hints to hand out (default: %(default)s)")
    parser.add_argument("--words", metavar="FILE", help="where to write the words that open sealed exercises (default: DIR.words.json)")


def run(arguments):
    target = pathlib.Path(arguments.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise HandoutError(f"{target} is there already; a new or empty folder is accepted")
    everything = exercises.read()
    if not everything or everything[0].solved() is None:
        raise HandoutError("this is a hand-out itself: make one from the whole repository")
    chosen = grade.chosen(everything, arguments.exercises)
    shown_by = give_away(chosen)
    waiting = sealed_until(shown_by)
    words = {exercise.id: sealed.new_word() for exercise in waiting}
    write(chosen, words, target, arguments.hints)
    if found := leaked(chosen, waiting, target):
        raise HandoutError("the hand-out shows solutions:\n" + "\n".join(f"  of {exercise} in {file}" for exercise, file in found))
    print(f"{len(chosen)} exercises in {target}")
    if words:
        place = pathlib.Path(arguments.words or str(target) + ".words.json")
        place.write_text(as_json(words))
        print(f"{len(words)} of them are sealed, since their files show what earlier ones ask for. The words that open them are in {place}:")
        for exercise, others in waiting.items():
            print(f"  {exercise.id}  {paint('bold', words[exercise.id]):14}  when these are done: {', '.join(e.id for e in others)}")
    for exercise, others in shown_by.items():
        if exercise not in waiting:
            print(f"note: the file of {exercise.id}, which is open, shows what {', '.join(e.id for e in others)} will ask for")
    return 0
