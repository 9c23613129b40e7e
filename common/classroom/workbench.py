"""Builds a learner's file and has it judged."""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile

import addresses
import budgets
import cuda_words
import exercises
import floors
import given
import limits
import policy

BUILD = pathlib.Path(os.environ.get("LADDER_BUILD_DIR") or exercises.ROOT / "build")
COMPILE_SECONDS = 60
TRIAL_SECONDS = 5
TRIALS_AT_MOST = 24      # as many times as long may all trials of a file take together
JUDGE_SECONDS = 600
OPTIONS = ["-fdiagnostics-color=never", "-fmax-errors=5"]  # beside those of the toolchain


class WorkbenchError(Exception):
    """The classroom itself does not work; not the learner's fault."""


@dataclasses.dataclass
class Check:
    """One thing that is asked of a kernel, and what came of it."""
    title: str
    points: int
    passed: bool = False
    ran: bool = False      # at least one trial of it was run
    trial: str = ""        # of the first that failed
    report: list = dataclasses.field(default_factory=list)  # lines, of the first that failed
    mistake: str = ""      # the catalogue's entry that it looks like
    hint: str = ""


@dataclasses.dataclass
class Verdict:
    """What came of a learner's file."""
    exercise: exercises.Exercise
    file: pathlib.Path
    stage: str             # "refused", "not compiled", "void" (right numbers of another kernel; see floors.py), "judged",
                           # "not judged" (the machine's doing, not the file's)
    report: list           # lines, where it was not judged
    checks: list
    trials: int = 0
    printed: str = ""      # what the kernel wrote to the terminal

    @property
    def passed(self):
        return self.stage == "judged" and bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def lost(self):
        """Titles of checks that the starting point passes, and this file does not."""
        return [check.title for check in self.checks if check.title in (self.exercise.begins_with or ()) and not check.passed]

    def points_of(self, check):
        """A check that the starting point passes earns nothing, and nothing else does once it is lost. Where nobody has said which those
        are, as with a kernel that has one mistake, something is earned when all checks pass."""
        earns = self.passed if self.exercise.begins_with is None else check.passed and not self.lost
        return check.points if earns else 0

    @property
    def points(self):
        return sum(map(self.points_of, self.checks))

    @property
    def possible(self):
        return sum(check.points for check in self.checks)

    @property
    def first_failure(self):
        return next((check for check in self.checks if not check.passed), None)


def _toolchain():
    file = BUILD / "common/classroom/toolchain.json"
    if not file.exists():
        raise WorkbenchError(f"there is no {file}: `./ladder learn` builds the classroom first")
    return json.loads(file.read_text())


def _ask_judge(*arguments):
    judge = _toolchain()["judge"]
    if not os.access(judge, os.X_OK):
        raise WorkbenchError(f"the judge cannot be started (there is no {judge}): is a build running? Try again when it is done")
    said = limits.run([judge, *arguments], JUDGE_SECONDS, memory=None)
    if said.late or said.starved:
        raise WorkbenchError(f"the judge was still at work after {JUDGE_SECONDS} s, and was ended")
    if said.code != 0:
        raise WorkbenchError(f"the judge failed (exit code {said.code}): {said.stderr.strip()}")
    return said.stdout.split("\n")[:-1]


_properties = {}


def properties(*exercises):
    """For each the titles of what its suite asks, in order."""
    if unknown := [exercise for exercise in exercises if exercise.name not in _properties]:
        said = _ask_judge("--properties", *(json.dumps(exercise.suite) for exercise in unknown))
        _properties.update({exercise.name: json.loads(titles) for exercise, titles in zip(unknown, said, strict=True)})
    return [_properties[exercise.name] for exercise in exercises]


def _worth(exercise, titles):
    """{title: points} of all checks, where its suite asks for these properties. What those that are given would be worth, the others share."""
    points = dict.fromkeys(titles, exercise.points) | {budget.name: budget.points for budget in exercise.budgets}
    begins_with = exercise.begins_with or []
    earned = [title for title in points if title not in begins_with]
    spare = sum(points[title] for title in begins_with)
    shares = {title: points[title] + spare // len(earned) + (n < spare % len(earned)) for n, title in enumerate(earned)}
    return {title: shares.get(title, 0) for title in points}


def worth(exercise):
    """{title: points} of all its checks."""
    return _worth(exercise, properties(exercise)[0])


def lookalikes():
    """The mistakes that the judge knows by their results, as "phase/name" of the catalogue."""
    return _ask_judge("--lookalikes")


def shown_path(path):
    """As a learner would type it; without its folders where one has a name that would mean something to the compiler, or to a terminal."""
    path = pathlib.Path(path).resolve()
    shown = os.path.relpath(path) if path.is_relative_to(pathlib.Path.cwd()) else str(path)
    return shown if shown.isprintable() and not set(shown) & set('"\\') else path.name


def _command(tools, exercise, overlay):
    """What the compiler is called with for an exercise's entry, with the file under `overlay` in the place of the learner's."""
    shadow = exercises.ROOT / "common/classroom/runner/shadow"
    # A header of another copy of the repository is another header.
    precompiled = ["-include", tools["precompiled"]] if tools["root"] == str(exercises.ROOT) else []
    return [tools["compiler"], *tools["options"], *OPTIONS, *precompiled, f"-I{overlay}", f"-I{shadow}", f"-I{exercises.ROOT}",
            str(exercises.ROOT / exercise.entry_file)]


@functools.cache
def _needed_files(exercise):
    """The files that the compiler opens for the starting point, and for all standard headers that a kernel may have."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / exercise.file
        file.parent.mkdir(parents=True)
        file.write_text(exercise.starting_point() + "".join(f"\n#include <{name}>" for name in policy.STANDARD_HEADERS) + "\n")
        given.lay_out(exercise.given_files(exercise.starting_point()), pathlib.Path(folder))
        said = limits.run([*_command(_toolchain(), exercise, folder), "-M"], COMPILE_SECONDS)
        if said.code != 0:
            raise WorkbenchError(f"the starting point of {exercise.id} has no headers: {said.stderr.strip()}")
        return policy.recorded_files(said.stdout) - {str(file)} | {_toolchain()["precompiled"] + ".gch"}


@functools.cache
def _machines_symbols(runner):
    return policy.strong_symbols(runner)


def _place(exercise, file):
    """Where its program is built, and nobody else's."""
    return BUILD / "classroom" / (exercise.folder + "-" + hashlib.sha256(str(file.resolve()).encode(errors="surrogateescape")).hexdigest()[:8])


def _compile(exercise, file, text):
    """(program, stage, complaint as lines): the program or the others are None."""
    tools, place = _toolchain(), _place(exercise, file)
    overlay = place / "overlay" / exercise.file
    overlay.parent.mkdir(parents=True, exist_ok=True)
    shown = shown_path(file)
    overlay.write_text(f'#line 1 "{shown}"\n' + text)  # errors and diagnoses name the learner's own file
    given_files = exercise.given_files(text)
    compiled, program, opened, record = place / "kernel.o", place / "kernel", place / "kernel.d", place / "kernel.tree"
    program.unlink(missing_ok=True)
    command = [*_command(tools, exercise, place / "overlay"), "-MD", "-MF", str(opened), f"-fdump-tree-original-raw={record}", "-c", "-o", str(compiled)]
    try:
        given.lay_out(given_files, place / "overlay")
        result = limits.run(command, COMPILE_SECONDS)
    finally:
        given.take_away(place / "overlay")
    if result.code != 0 or result.starved:
        return None, *_why_it_does_not_compile(exercise, result, shown, place)
    ours = {str(overlay), *(str(place / "overlay" / path) for path in given_files)}
    files = policy.recorded_files(opened.read_text()) - ours
    if complaints := [*policy.complaints_about_files(files, _needed_files(exercise)),
                      *policy.complaints_about_object(compiled, _machines_symbols(tools["runner"])),
                      *addresses.complaints(record.read_bytes(), pathlib.Path(shown).name)]:
        return None, "refused", complaints
    linked = limits.run([tools["compiler"], compiled, tools["runner"], *tools["libraries"], "-o", program], COMPILE_SECONDS)
    if linked.starved or linked.code != 0 and not linked.stderr and not linked.late:
        return None, "not judged", ["the linker was ended by the machine before it was done"]
    if linked.late:
        return None, "not compiled", [f"the linker took {COMPILE_SECONDS} s of the processor's time and was not done"]
    if linked.code != 0:
        undefined = [line for line in linked.stderr.splitlines() if "undefined reference" in line]
        return None, "not compiled", _without_our_paths(undefined or linked.stderr.splitlines(), place)
    return program, None, None


def _without_our_paths(lines, place):
    """As they are called in the repository, wherever that lies."""
    return [line.replace(f"{place}/overlay/", "").replace(f"{place}/", "").replace(f"{exercises.ROOT}/", "") for line in lines]


@functools.cache
def _starting_point_compiles(exercise):
    """Under the same limits, here and now: then it is not the machine's doing that another file does not."""
    with tempfile.TemporaryDirectory() as folder:
        text, overlay = exercise.starting_point(), pathlib.Path(folder)
        (overlay / exercise.file).parent.mkdir(parents=True)
        (overlay / exercise.file).write_text(text)
        given.lay_out(exercise.given_files(text), overlay)
        said = limits.run([*_command(_toolchain(), exercise, folder), "-c", "-o", overlay / "kernel.o"], COMPILE_SECONDS)
        if said.starved:
            raise limits.Starved("the compiler was ended by the machine, or got no processor for too long")
        return said.code == 0


# What the compiler says where it is at the end of its own means, and nothing where the machine ends it.
OUT_OF_MEANS = {
    "out of memory": f"{limits.MEMORY >> 30} GB of memory",
    "virtual memory exhausted": f"{limits.MEMORY >> 30} GB of memory",
    "internal compiler error": "its stack, or of what else it has",
    "signal terminated program": "its stack, or of what else it has",
}


def _why_it_does_not_compile(exercise, result, shown, place):
    """(stage, lines)"""
    if result.late:
        return "not compiled", [f"the compiler took {COMPILE_SECONDS} s of the processor's time and was not done: is there a template or a "
                                "constant without end?"]
    if result.starved:
        return "not judged", ["the compiler was ended by the machine, or got no processor for too long"]
    if "File size limit exceeded" in result.stderr:
        return "not compiled", ["what the compiler made of it is too large: is there an array whose values stand in the file?"]
    if means := next((means for words, means in OUT_OF_MEANS.items() if words in result.stderr), ""):
        if not _starting_point_compiles(exercise):
            return "not judged", ["the compiler breaks down, on the starting point, too"]
        return "not compiled", [f"the compiler ran out of {means} on this file, and not on the starting point: is there something that is "
                                "nested many times, or a type or table without end?"]
    return "not compiled", _without_our_paths(learners_lines(result.stderr, shown), place)


@dataclasses.dataclass
class _Complaint:
    """An error of the compiler's."""
    place: str              # of the file in which it was met
    line: str
    words: str
    shown: list             # the source line, and what points to it
    reached_from: str = ""  # the learner's line that led there, if it is another file's


def _complaints(errors, shown):
    found, leading, into = [], "", None
    for line in errors.splitlines():
        if led := re.match(r"(\S+?):(\d+):\d+:\s+(required|recursively required) from", line):
            if led[1] == shown:
                leading = led[2]
            into = None
        elif place := re.match(r"(\S+?):(\d+):(\d+): (fatal error|error|note|warning): (.*)", line):
            into = None
            if place[4] in ("error", "fatal error"):
                words = cuda_words.words_for_error(place[5]) or place[5]
                found.append(_Complaint(place[1], place[2], words, [], leading))
                into = found[-1].shown
            leading = ""
        elif into is not None and re.match(r"\s*\d* \|", line):
            into.append("  " + line)
    return found


def learners_lines(errors, shown):
    """What the compiler said of the learner's own lines, each once, however many kernels were made of them; where nothing was
    about those, what the learner's lines led to; all of it where that is unknown, too."""
    complaints = _complaints(errors, shown)
    if own := [c for c in complaints if c.place == shown]:
        said = [[f"line {c.line}: {c.words}", *c.shown] for c in own]
    else:
        said = [[f"line {c.reached_from} leads to an error at {c.place.removeprefix(f'{exercises.ROOT}/')}:{c.line}: {c.words}"]
                for c in complaints if c.reached_from]
    once = {lines[0]: lines for lines in reversed(said)}
    return [line for first in dict.fromkeys(lines[0] for lines in said) for line in once[first]] or errors.splitlines()[:20]


def calling_lines(program, fault, file):
    """The lines of the learner's file that led to the line which the machine names, innermost first. Helpers such as row_max are
    called from several places, and the machine names the helper's line. Where that is a line which only named the element, and no
    call of it is open any more, all lines of the file that are under way; none if the machine names the file itself."""
    addresses = [hex(int(call) - 1) for call in fault.get("calls", [])]  # of the calls: those are where they return to
    listed = limits.run(["addr2line", "--inlines", "--exe", str(program), *addresses], policy.INSPECTION_SECONDS).stdout.splitlines() if addresses else []
    places = [place.split(" ")[0].rpartition(":") for place in listed]  # a note in brackets may follow

    def names(path, line):
        return re.search(rf"at {re.escape('/'.join(pathlib.Path(path).parts[-2:]))}:{line}", fault["message"], re.MULTILINE)

    named = [n for n, (path, _, line) in enumerate(places) if names(path, line + "$")]
    if not named and names(file.resolve(), r"\d+"):
        return []
    own = [line for path, _, line in places[named[0] + 1 if named else 0:] if pathlib.Path(path).resolve() == file.resolve()]
    return list(dict.fromkeys(own))


def _name_callers(trials, program, file):
    for trial in trials:
        if (fault := trial.get("fault")) and (lines := calling_lines(program, fault, file)):
            fault["message"] += f"\ncalled from line {', and that from line '.join(lines)} of your file"


CRASHES = {
    "": "a raw pointer or an array of its own that was overrun? Tensors and tiles check their indices, these do not",
    "Aborted": "something called abort(), or an exception left a function that lets none out, such as a destructor",
    "Illegal instruction": "an index of an array that is out of its bounds; the compiler also leaves such an instruction where a function that gives "
                           "back a value ends without, or where it saw undefined behaviour",
}


def _examined(trial):
    """(passed, lines of a report, the mistake that it looks like) of one trial."""
    match trial["end"]:
        case "not_run":
            return False, ["not run: an earlier problem did not come to an end"], ""
        case "timed_out":
            return False, [f"{trial['detail']}, and was ended: a loop without end? Look at what each loop counts and where it stops"], ""
        case "crashed":
            return False, [f"the program was ended by the system: {trial['detail']}", CRASHES.get(trial["detail"], CRASHES[""])], ""
        case "forbidden":
            return False, ["the program was ended by the system: it asked for what no kernel has a use for (a file, a process, a thread, "
                           "the network, another limit)"], ""
        case "silent":
            return False, [f"the program ended without giving back a result ({trial['detail']})"], ""
        case "replied":
            pass
        case other:
            raise WorkbenchError(f"the judge says that a trial ended with \"{other}\", which nobody knows")
    if fault := trial["fault"]:
        return False, fault["message"].splitlines(), ""
    if finding := trial["finding"]:
        lines = [finding["first"], finding["pattern"]] if finding["first"] else [finding["summary"]]
        return False, lines, finding["lookalike"] or ""
    return True, [], ""


def _checks(exercise, trials):
    """The properties of the suite, in order, then the budgets."""
    properties, points = {}, _worth(exercise, [trial["title"] for trial in trials])
    for trial in trials:
        check = properties.setdefault(trial["property"], Check(trial["title"], points[trial["title"]], passed=True))
        check.ran = check.ran or trial["end"] != "not_run"
        passed, lines, mistake = _examined(trial)
        if check.passed and not passed:
            check.passed, check.trial, check.report, check.mistake = False, trial["trial"], lines, mistake
    for budget in exercise.budgets:
        check = properties[budget.name] = Check(budget.name, points[budget.name], passed=bool(trials), hint=budget.hint)
        for trial in trials:
            if not _examined(trial)[0]:
                # A wrong kernel may be as cheap as it likes.
                check.passed, check.ran, check.trial = False, False, trial["trial"]
                check.report = ["counted once the results are right"]
                break
            names = {**trial["sizes"], **budgets.counters_of(trial["launches"])}
            check.ran = True
            if not budgets.evaluate(budget.expression, names):
                counted = budgets.sides(budget.expression, names)
                check.passed, check.trial = False, trial["trial"]
                check.report = [f"{counted[0]:,} {budgets.unit(budget.expression)} counted, {counted[1]:,} allowed" if counted
                                else "over the budget", budget.expression]
                break
    return list(properties.values())


def judge(exercise, file, seed, text=None, trial_seconds=TRIAL_SECONDS, progress=None, jobs=None):
    """Builds `file` (or `text` in its place) and tries it on the problems of `seed`, `jobs` of them side by side (as many as there
    are cores if that is not given). Returns a Verdict."""
    file = pathlib.Path(file)
    if text is None:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            return Verdict(exercise, file, "refused", [f"the file cannot be read: {error}"], [])
    try:
        complaints = policy.complaints_about_text(text, exercise.starting_point(), _toolchain()["compiler"], exercise.own_launch,
                                                  tuple((exercise.given_files(exercise.starting_point()) | exercise.given_files(text)).items()))
        if complaints:
            return Verdict(exercise, file, "refused", complaints, [])
        if progress:
            progress("compiling")
        program, stage, complaint = _compile(exercise, file, text)
        if program is None:
            return Verdict(exercise, file, stage, complaint, [])
        if progress:
            progress("running")
        return tried(exercise, file, program, seed, trial_seconds, jobs)
    except limits.Starved as error:
        return Verdict(exercise, file, "not judged", [str(error)], [])
    finally:
        shutil.rmtree(_place(exercise, file), ignore_errors=True)


def tried(exercise, file, program, seed, trial_seconds=TRIAL_SECONDS, jobs=None):
    """Tries a program that was built of `file`. Returns a Verdict."""
    lines = [json.loads(line) for line in _ask_judge(
        str(program), json.dumps(exercise.suite), str(seed), str(int(trial_seconds * 1000)), str(int(trial_seconds * 1000 * TRIALS_AT_MOST)),
        str(jobs or len(os.sched_getaffinity(0))))]
    if not lines or len(lines) != lines[0]["trials"] + 1:
        raise WorkbenchError(f"the judge said {len(lines)} lines, which is not what it announced")
    trials = lines[1:]
    if starved := next((trial for trial in trials if trial["end"] == "starved"), None):
        return Verdict(exercise, file, "not judged", [f"{starved['trial']}: the machine did not let it end: {starved['detail']}"], [], len(trials))
    _name_callers(trials, program, file)
    printed = next((trial["printed"] for trial in trials if trial.get("printed")), "")
    for trial in trials:
        if _examined(trial)[0] and (lines := floors.missed(exercise, trial)):
            return Verdict(exercise, file, "void", lines, [], len(trials), printed)
    return Verdict(exercise, file, "judged", [], _checks(exercise, trials), len(trials), printed)
