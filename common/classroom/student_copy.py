"""./ladder student-copy: a folder to hand out, which has exercises and no solutions, and builds and judges by itself."""

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import exercises
import given
import grade
import handout_pages
import leaks
import marks
import sealed
import terminal
import workbench
from exercises import ROOT
from terminal import paint

# What a hand-out consists of, beside what its exercises include. It has no kernel of a phase, and no libtorch.
WHOLE = ("common/classroom", "common/simt")
FILES = ("ladder", "LICENSE", "LICENSE-docs", ".devcontainer/devcontainer.json", "common/CMakeLists.txt", "common/rung/phases.txt",
         "docs/attention/four_tokens.py", "docs/attention/cost.py")
ANSWERS = "common/classroom/answers"  # see common/classroom/judge/recording.h
RECORDED_AT_ONCE = 3  # kinds of problems, by one start of the recorder, which loads libtorch
SEED = 20260101  # of the recorded problems: they lie open, so they need not be drawn
PAGES = ("docs/algorithms.md", "docs/attention.md", "docs/counters.md", "docs/cpu_machine.md", "docs/glossary.md", "docs/hopper.md",
         "docs/notation.md", "docs/numerics.md", "docs/primer.md")
LEFT_OUT = tuple(f"common/classroom/{name}.py" for name in ("answer_key", "handout_pages", "leaks", "student_copy")) + (
    "common/classroom/README.md", "common/classroom/judge/full_judge.cmake")  # need the solutions
QUOTED_CODE = re.compile(r"(<!-- code: [^\n]*-->\n)(```.*?\n```)(\n<!-- end -->)", re.DOTALL)

BUILD_FILE = """cmake_minimum_required(VERSION 3.25)
project(FlashLadderExercises LANGUAGES CXX)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_BUILD_TYPE Release)
set(CMAKE_CXX_FLAGS_RELEASE "-O1")
set(LADDER_FAST_OPTIONS -O1)
set(LADDER_CHECKS ON)
set(LADDER_WITHOUT_TORCH ON)

find_package(Threads REQUIRED)
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
./ladder doctor             # what this machine lacks
```

On Debian 12 and Ubuntu 24.04 the first check installs what is missing (g++, cmake, ninja and two small libraries) and builds the
machine, which takes a few minutes; `./ladder learn prepare` does that ahead. In GitHub Codespaces, and in VS Code with the
extension "Dev Containers", this folder opens ready to work. Your files lie in `workspace/`: that is what you hand in.

The problems here are the same at every check. Your teacher grades with others, so a kernel that knows these by heart earns nothing.

The chapters: {chapters}. Where they quote what you are to write yourself, the quotation is left out, and in the kernels that they
link a line says "Given": what stands there is compiled in, and is some exercise's answer. The chapters show profiles, tours and test runs
of the finished kernels. Your teacher's copy of FlashLadder has the programs that print them.
"""

IGNORED = """/build/
__pycache__/
"""

# GitHub Classroom takes this file as it is, if the assignment says that it brings its own workflow.
WORKFLOW = """name: Autograding
on: [push, workflow_dispatch]
permissions: {checks: write, actions: read, contents: read}
jobs:
  grade:
    if: github.actor != 'github-classroom[bot]'
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - run: ./ladder learn prepare
@GRADERS@      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
@RESULTS@        with:
          runners: @RUNNERS@
"""
GRADER = """      - id: @ID@
        uses: classroom-resources/autograding-command-grader@v1
        with: {test-name: "@NAME@", command: ./ladder grade @EXERCISE@, timeout: 5, max-score: @POINTS@}
"""


class HandoutError(Exception):
    """What cannot be handed out, and why."""


def copy_file(path, target):
    destination = target / path
    destination.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / path, destination)


def copy_tree(folder, target):
    shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", "workspace"))


def page_without(text, chosen):
    """A chapter whose quotations of code show nothing that these exercises ask for."""
    told = {key for exercise in chosen if exercise.kind != "fix" for secret in given.secrets(exercise)
            for key in secret.keys if given.says_something(key)}

    def kept(match):
        if {given.key(line) for line in match[2].splitlines()} & told or any(leaks.shown_by(exercise, match[2]) for exercise in chosen):
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
    return {"task": exercise.task, "hints": [sealed.packed(hint, exercise.id) for hint in [*exercise.hints[:hints], *no_more]],
            "afterwards": sealed.packed(exercise.afterwards, earned_by(exercise)), "start": start_path(exercise)}


def earned_by(exercise):
    """The key to what is said when all checks have passed; see learn.py."""
    return exercises.key_of_the_passed(exercise, [*workbench.properties(exercise)[0], *(budget.name for budget in exercise.budgets)])


@functools.cache
def folded(path):
    """(a file of the repository without what any exercise asks for, {path: lines that are given instead})."""
    everything = [secret for exercise in exercises.read() for secret in given.secrets(exercise)]
    return given.folded(marks.solution((ROOT / path).read_text()), everything)


def headers_for(exercise):
    """The files that it needs, beside those that every hand-out has."""
    return sorted(path for path in exercise.included_files() if not path.startswith(WHOLE))


@functools.cache
def files_for(exercise):
    """{path: text} of what somebody gets to do it."""
    return {path: folded(path)[0] for path in headers_for(exercise)} | {start_path(exercise): exercise.starting_point()}


def given_for(exercise):
    """{path: lines} of what these include."""
    found = dict(exercise.given_files(exercise.starting_point()))
    for path in headers_for(exercise):
        found |= folded(path)[1]
    return found


def known_mistakes():
    """{name: [title, hint]} of all that the judge recognises by its results."""
    return {name: list(exercises.known_mistake(name)) for name in workbench.lookalikes()}


def write_files(files, target):
    for path, text in files.items():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text)


def as_json(data):
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def judges_of_libtorch():
    """The sources of the full judge, which a hand-out does not have."""
    named = set(re.findall(r"judge/(\w+)\.cpp", (ROOT / "common/classroom/judge/full_judge.cmake").read_text())) - {"main"} | {"first_given"}
    return [f"common/classroom/judge/{name}{kind}" for name in named for kind in (".cpp", ".h") if name + kind != "trials.h"]


def recorded_answers(chosen):
    """The files with the problems of these exercises and their answers. This build's judge records each once."""
    recorder = workbench.BUILD / "common/classroom/classroom_recorder"
    folder = workbench.BUILD / "common/classroom" / f"answers-{hashlib.sha256(recorder.read_bytes()).hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)

    suites = sorted({json.dumps(exercise.suite, sort_keys=True) for exercise in chosen})
    marks_of = {suite: folder / f"{hashlib.sha256(suite.encode()).hexdigest()[:16]}.name" for suite in suites}
    missing = [suite for suite in suites if not marks_of[suite].exists()]

    def record(some):
        said = subprocess.run([recorder, folder, str(SEED), *some], capture_output=True, text=True)
        if said.returncode != 0:
            raise HandoutError(f"the answers cannot be recorded: {said.stderr.strip()}")
        for suite, name in zip(some, said.stdout.splitlines(), strict=True):
            marks_of[suite].write_text(name)
        return len(some)

    progress, done = terminal.Progress(), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        for count in workers.map(record, [missing[n:n + RECORDED_AT_ONCE] for n in range(0, len(missing), RECORDED_AT_ONCE)]):
            done += count
            progress(f"recording answers: {done} of {len(missing)} kinds of problems")
    progress.clear()
    return [folder / marks_of[suite].read_text() for suite in suites]


def write(chosen, words, target, hints):
    """`words`: {exercise: word} of those that are handed out sealed."""
    for folder in WHOLE:
        copy_tree(folder, target)
    for path in FILES:
        copy_file(path, target)
    for path in (*LEFT_OUT, *judges_of_libtorch()):
        (target / path).unlink(missing_ok=True)
    (target / ANSWERS).mkdir()
    for path in recorded_answers(chosen):
        shutil.copy2(path, target / ANSWERS)

    workbench.properties(*chosen)  # all with one start of the judge, which loads libtorch
    phases = sorted({exercise.phase for exercise in chosen})
    for phase in phases:
        tables = []
        for exercise in (e for e in chosen if e.phase == phase):
            copy_file(exercise.entry_file, target)
            part, files = inner_part(exercise, hints), {start_path(exercise): exercise.starting_point()}
            write_files({path: folded(path)[0] for path in headers_for(exercise)}, target)
            if word := words.get(exercise.id):
                place = f"{phase}/exercises/sealed/{exercise.number}.json"
                write_files({place: as_json(sealed.seal(part | {"files": files}, word))}, target)
                tables.append(description(exercise) | {"task": "", "hints": [], "sealed": place})
            else:
                write_files(files, target)
                tables.append(description(exercise) | part)
        write_files({f"{phase}/exercises/exercises.json": as_json({"exercise": tables})}, target)
    all_given = {path: lines for exercise in chosen for path, lines in given_for(exercise).items()}
    write_files({f"common/classroom/{given.PACKED}": as_json(given.packed(all_given)),
                 f"common/classroom/{exercises.KNOWN_MISTAKES.name}": as_json(known_mistakes()), "CMakeLists.txt": BUILD_FILE,
                 ".gitignore": IGNORED, ".github/workflows/classroom.yml": workflow(chosen)}, target)
    chapters = ", ".join(f"[phase {phase[5]}]({phase}/README.md)" for phase in phases)
    first = next((exercise.id for exercise in chosen if exercise.id not in words), chosen[0].id)
    write_pages(chosen, [*PAGES, *(f"{phase}/{page}" for phase in phases for page in ("README.md", "exercises/README.md"))],
                FRONT_PAGE.format(first=first, chapters=chapters), target)


def workflow(chosen):
    """For GitHub Actions and GitHub Classroom: every exercise is one test."""
    ids = {exercise: "exercise_" + exercise.id.replace(".", "_") for exercise in chosen}
    points = grade.possible_points(chosen)
    graders = "".join(GRADER.replace("@ID@", ids[e]).replace("@NAME@", f"{e.id} {e.title}").replace("@EXERCISE@", e.id)
                      .replace("@POINTS@", str(points[e.name])) for e in chosen)
    results = "".join(f"          {name.upper()}_RESULTS: ${{{{ steps.{name}.outputs.result }}}}\n" for name in ids.values())
    return WORKFLOW.replace("@GRADERS@", graders).replace("@RESULTS@", results).replace("@RUNNERS@", ",".join(ids.values()))


def write_pages(chosen, pages, front_page, target):
    """The chapters, and what they show: their figures, and the kernels, without what is asked for."""
    texts = {page: page_without((ROOT / page).read_text(), chosen) for page in pages} | {"README.md": front_page}
    linked = {handout_pages.target_of(page, link) for page, text in texts.items() for link in handout_pages.links_in(text)}
    for path in sorted(linked):
        if not (ROOT / path).is_file() or (target / path).exists():
            continue
        if path.endswith((".svg", ".txt")):
            copy_file(path, target)
        elif path.endswith((".cuh", ".h", ".cpp")) and not any(leaks.shown_by(exercise, folded(path)[0]) for exercise in chosen):
            write_files({path: folded(path)[0]}, target)
    present = {str(path.relative_to(target)) for path in target.rglob("*")} | texts.keys()
    write_files({page: handout_pages.adapted(page, text, present) for page, text in texts.items()}, target)


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
    waiting = leaks.sealed_until(leaks.give_away(chosen, lambda exercise: list(files_for(exercise).values())))
    words = {exercise.id: sealed.new_word() for exercise in waiting}
    write(chosen, words, target, arguments.hints)
    if found := leaks.leaked(chosen, target):
        raise HandoutError("the hand-out shows answers:\n" + "\n".join(f"  to {exercise} in {file}" for exercise, file in found))
    if found := handout_pages.dead_ends(target):
        raise HandoutError("the hand-out's pages name what it lacks:\n" + "\n".join(f"  {line}" for line in found))
    print(f"{len(chosen)} exercises in {target}")
    if words:
        place = pathlib.Path(arguments.words or str(target) + ".words.json")
        place.write_text(as_json(words))
        print(f"{len(words)} of them are sealed, since their files show what earlier ones ask for. The words that open them are in {place}:")
        for exercise, others in waiting.items():
            print(f"  {exercise.id}  {paint('bold', words[exercise.id]):14}  when these are done: {', '.join(e.id for e in others)}")
    return 0
