"""./ladder grade: points for a workspace or a class of them, as a table, as JSON, for Gradescope.

Whatever a submission is, it gets a result: what goes wrong with one file is the end of that file alone."""

import concurrent.futures
import json
import os
import pathlib
import random
import time

import exercises
import limits
import submission
import terminal
import workbench
from terminal import paint
from workspace import FOLDER

TRIAL_SECONDS = 20
ENDED = "the grading was ended before this file had a result"
MINUTES = 60  # of a submission: forty starting points take one or two


class GradeError(Exception):
    """What cannot be graded, and why."""


class Clock:
    """What is left to a submission, from when its first file is looked at."""

    def __init__(self, minutes):
        self.minutes, self.begun = minutes, None

    def is_up(self):
        self.begun = self.begun or time.monotonic()
        return time.monotonic() - self.begun > 60 * self.minutes


def verdict_on(exercise, folder, seed, clock):
    """None where there is no file. Nothing that a file does raises anything here."""
    file = pathlib.Path(folder) / exercise.folder / pathlib.Path(exercise.file).name

    def without_points(stage, sentence):
        return workbench.Verdict(exercise, file, stage, [sentence], [])

    try:
        text = submission.text_of(folder, exercise)
        if text is None:
            return None
        if text == exercise.starting_point():
            return without_points("untouched", "this is the starting point as it was given, which earns nothing")
        if clock.is_up():
            return without_points("not judged", f"the files of this submission have taken {clock.minutes} minutes, and no file gets more")
        return workbench.judge(exercise, file, seed, text=text, trial_seconds=TRIAL_SECONDS, jobs=1)
    except limits.Interrupted:
        return without_points("not judged", ENDED)
    except submission.Unreadable as error:
        return without_points("refused", str(error))
    except Exception as error:  # its points are at stake, nobody else's
        return without_points("not judged", f"the grader could not judge it: {type(error).__name__}: {error}")


def graded(known, folders, seed, minutes, progress):
    """For each folder a list of (exercise, Verdict or None): None where there is no file. As many at a time as there are cores. And whether
    that is all: who ends the grading has what was judged until then."""
    workers, is_whole = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))), True
    try:
        waiting = []
        for folder in folders:
            clock = Clock(minutes)
            waiting.append([(exercise, workers.submit(verdict_on, exercise, folder, seed, clock)) for exercise in known])
        try:
            for folder, of_folder in zip(folders, waiting):
                for exercise, verdict in of_folder:
                    progress(f"{terminal.escaped(pathlib.Path(folder).name)}: {exercise.id} {exercise.title}")
                    while not verdict.done():  # not without end: a signal that another thread was given wakes nobody who waits
                        concurrent.futures.wait([verdict], timeout=0.2)
                    verdict.result()
        except KeyboardInterrupt:
            is_whole = False
            _end(workers)
        return [[(exercise, _until_now(exercise, folder, verdict)) for exercise, verdict in of_folder]
                for folder, of_folder in zip(folders, waiting)], is_whole
    except BaseException:
        _end(workers)
        raise
    finally:
        progress.clear()


def _end(workers):
    workers.shutdown(wait=False, cancel_futures=True)
    limits.end_everything()


def _until_now(exercise, folder, verdict):
    if verdict.done() and not verdict.cancelled():
        return verdict.result()
    return workbench.Verdict(exercise, pathlib.Path(folder), "not judged", [ENDED], [])


def possible_points(known):
    """By exercise: what its solution would earn. Asked of the judge, since it makes the properties."""
    workbench.properties(*known)  # all at once: the judge takes a while to begin
    return {exercise.name: sum(workbench.worth(exercise).values()) for exercise in known}


def as_json(results, seed, possible, missing=()):
    """The neutral form; docs/instructors.md says what the fields mean."""
    def entry(exercise, verdict):
        checks = [{"title": c.title, "points": verdict.points_of(c), "possible": c.points, "passed": c.passed, "ran": c.ran,
                   "trial": c.trial, "report": terminal.plain(c.report), "mistake": c.mistake} for c in (verdict.checks if verdict else [])]
        report = list(verdict.report) if verdict else []
        if verdict and verdict.lost:
            report.append(f"the starting point had {', '.join(verdict.lost)}: until it is right again nothing else earns points")
        return {"exercise": exercise.id, "name": exercise.name, "title": exercise.title, "kind": exercise.kind,
                "stage": verdict.stage if verdict else "not handed in", "report": terminal.plain(report),
                "points": verdict.points if verdict else 0, "possible": possible[exercise.name],
                "passed": bool(verdict and verdict.passed), "checks": checks}
    entries = [entry(exercise, verdict) for exercise, verdict in results]
    return {"format": 2, "commit": os.environ.get("LADDER_COMMIT", "unknown"), "seed": seed, "not_enforced": list(missing),
            "points": sum(e["points"] for e in entries), "possible": sum(e["possible"] for e in entries), "exercises": entries}


def as_gradescope(grades):
    """results.json as Gradescope's autograder reads it."""
    tests = []
    for exercise in grades["exercises"]:
        name = f"{exercise['exercise']} {exercise['title']}"
        if not exercise["checks"]:
            output = "\n".join([exercise["stage"], *exercise["report"]])
            tests.append({"name": name, "score": 0, "max_score": exercise["possible"], "output": output, "status": "failed"})
        for check in exercise["checks"]:
            output = "\n".join(exercise["report"]) if check["passed"] else "\n".join([check["trial"], *check["report"]])
            tests.append({"name": f"{name}: {check['title']}", "score": check["points"], "max_score": check["possible"],
                          "output": output, "status": "passed" if check["passed"] else "failed"})
    return {"score": grades["points"], "output": f"FlashLadder {grades['commit']}, grading seed {grades['seed']}", "tests": tests}


def table(grades):
    lines = []
    for exercise in grades["exercises"]:
        checks = exercise["checks"]
        not_run = [c["title"] for c in checks if not c["ran"]]
        failed = [c["title"] for c in checks if c["ran"] and not c["passed"]]
        words = exercise["stage"] if exercise["stage"] != "judged" else "passed" if exercise["passed"] else ""
        if failed:
            words += "wrong: " + ", ".join(failed)
        if not_run:
            words += ("; " if words else "") + "did not run, so it earns nothing: " + ", ".join(not_run)
        colour = "green" if exercise["passed"] else "red" if exercise["stage"] == "judged" else "yellow"
        lines.append(f"  {exercise['exercise']}  {exercise['points']:3} of {exercise['possible']:3}  {exercise['title']:44}  {paint(colour, words)}")
        if exercise["stage"] != "untouched":
            lines += [f"       {line}" for line in exercise["report"][:3]]
    lines += ["", f"{paint('bold', str(grades['points']))} of {grades['possible']} points   seed {grades['seed']}, commit {grades['commit']}"]
    return lines


def add_arguments(parser):
    parser.add_argument("exercise", nargs="*", help="numbers, names or phases (\"3\"); all if none is given")
    parser.add_argument("--workspace", default=str(FOLDER), metavar="DIR", help="whose files (default: %(default)s)")
    parser.add_argument("--class", dest="submissions", metavar="DIR", help="a folder of workspaces, one for each student, in place of one")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the most that a submission may take (default: %(default)s)")
    parser.add_argument("--seed", type=int, help="of the problems; drawn if not given. The same for a whole class")
    parser.add_argument("--json", metavar="FILE", help="also write the grades as data")
    parser.add_argument("--gradescope", metavar="FILE", help="also write them as Gradescope's results.json")
    parser.add_argument("--require", type=int, metavar="POINTS", help="exit code 1 below so many points (default: below all)")


def chosen(known, wanted):
    if not wanted:
        return known
    picked = []
    for word in wanted:
        in_phase = [e for e in known if word == e.id.split(".")[0]]
        picked += in_phase or [exercises.find(known, word)]
    return [exercise for exercise in known if exercise in picked]


def write(path, data):
    try:
        pathlib.Path(path).write_text(json.dumps(data, indent=2, allow_nan=False) + "\n")
    except OSError as error:
        raise GradeError(f"{path} cannot be written: {error}") from error


def students(folder):
    """Whatever lies in a folder of workspaces: each has a result, even what is none."""
    return sorted(entry.path for entry in os.scandir(folder))


def folders_of(arguments):
    folder = arguments.submissions or arguments.workspace
    if not pathlib.Path(folder).is_dir():
        raise GradeError(f"there is no folder {folder}; --workspace takes the one that `./ladder learn start` made, --class one of those")
    if arguments.submissions and arguments.gradescope:
        raise GradeError("--gradescope takes one student's workspace, and --class has many")
    if arguments.submissions and not students(folder):
        raise GradeError(f"{folder} has nothing in it; --class takes a folder that has a workspace for each student")
    return students(folder) if arguments.submissions else [os.path.realpath(folder)]


def run(arguments):
    known, folders = chosen(exercises.read(), arguments.exercise), folders_of(arguments)
    seed = random.SystemRandom().getrandbits(32) if arguments.seed is None else arguments.seed
    missing, possible = limits.not_enforced(), possible_points(known)
    for sentence in missing:
        print(paint("yellow", f"this machine lacks {sentence}"))
    results, is_whole = graded(known, folders, seed, arguments.minutes, terminal.Progress())
    grades = {pathlib.Path(folder).name: as_json(of_folder, seed, possible, missing) for folder, of_folder in zip(folders, results)}
    if arguments.json:  # before anything is printed: who reads that may have gone
        everybody = {"format": 2, "students": [{"student": terminal.escaped(student), **rest} for student, rest in grades.items()]}
        write(arguments.json, everybody if arguments.submissions else next(iter(grades.values())))
    if arguments.gradescope:
        write(arguments.gradescope, as_gradescope(next(iter(grades.values()))))
    for student, of_student in grades.items():
        if arguments.submissions:
            print(paint("bold", terminal.escaped(student)))
        print("\n".join(table(of_student)))
    if not is_whole:
        raise KeyboardInterrupt
    return 0 if all(g["points"] >= (g["possible"] if arguments.require is None else arguments.require) for g in grades.values()) else 1
