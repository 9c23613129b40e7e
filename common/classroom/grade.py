"""./ladder grade: points for a workspace, as a table, as JSON, for Gradescope."""

import json
import os
import pathlib
import random

import exercises
import terminal
import workbench
from terminal import paint
from workspace import FOLDER, Workspace

TRIAL_SECONDS = 20


class GradeError(Exception):
    """What cannot be graded, and why."""


def graded(known, folder, seed, progress):
    """A list of (exercise, Verdict or None): None where there is no file."""
    space, results = Workspace(folder), []
    for exercise in known:
        file = space.file(exercise)
        progress(f"{exercise.id} {exercise.title}")
        results.append((exercise, workbench.judge(exercise, file, seed, trial_seconds=TRIAL_SECONDS) if file.exists() else None))
    progress.clear()
    return results


def possible_points(known):
    """By exercise: what its solution would earn. Asked of the judge, since it makes the properties."""
    points = {}
    for exercise in known:
        points[exercise.name] = exercise.points * len(workbench.properties(exercise)) + sum(budget.points for budget in exercise.budgets)
    return points


def as_json(results, seed, possible):
    """The neutral form; docs/instructors.md says what the fields mean."""
    def entry(exercise, verdict):
        checks = [{"title": c.title, "points": c.points if c.passed else 0, "possible": c.points, "passed": c.passed, "ran": c.ran,
                   "trial": c.trial, "report": c.report, "mistake": c.mistake} for c in (verdict.checks if verdict else [])]
        return {"exercise": exercise.id, "name": exercise.name, "title": exercise.title, "kind": exercise.kind,
                "stage": verdict.stage if verdict else "not handed in", "report": verdict.report if verdict else [],
                "points": verdict.points if verdict else 0, "possible": possible[exercise.name],
                "passed": bool(verdict and verdict.passed), "checks": checks}
    entries = [entry(exercise, verdict) for exercise, verdict in results]
    return {"format": 1, "commit": os.environ.get("LADDER_COMMIT", "unknown"), "seed": seed, "points": sum(e["points"] for e in entries),
            "possible": sum(e["possible"] for e in entries), "exercises": entries}


def as_gradescope(grades):
    """results.json as Gradescope's autograder reads it."""
    tests = []
    for exercise in grades["exercises"]:
        name = f"{exercise['exercise']} {exercise['title']}"
        if not exercise["checks"]:
            output = "\n".join([exercise["stage"], *exercise["report"]])
            tests.append({"name": name, "score": 0, "max_score": exercise["possible"], "output": output, "status": "failed"})
        for check in exercise["checks"]:
            output = "" if check["passed"] else "\n".join([check["trial"], *check["report"]])
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
    lines += ["", f"{paint('bold', str(grades['points']))} of {grades['possible']} points   seed {grades['seed']}, commit {grades['commit']}"]
    return lines


def add_arguments(parser):
    parser.add_argument("exercise", nargs="*", help="numbers, names or phases (\"3\"); all if none is given")
    parser.add_argument("--workspace", default=str(FOLDER), metavar="DIR", help="whose files (default: %(default)s)")
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
        pathlib.Path(path).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise GradeError(f"{path} cannot be written: {error}") from error


def run(arguments):
    if not pathlib.Path(arguments.workspace).is_dir():
        raise GradeError(f"there is no folder {arguments.workspace}; --workspace takes the one that `./ladder learn start` made")
    known = chosen(exercises.read(), arguments.exercise)
    seed = random.SystemRandom().getrandbits(32) if arguments.seed is None else arguments.seed
    grades = as_json(graded(known, arguments.workspace, seed, terminal.Progress()), seed, possible_points(known))
    print("\n".join(table(grades)))
    if arguments.json:
        write(arguments.json, grades)
    if arguments.gradescope:
        write(arguments.gradescope, as_gradescope(grades))
    return 0 if grades["points"] >= (grades["possible"] if arguments.require is None else arguments.require) else 1
