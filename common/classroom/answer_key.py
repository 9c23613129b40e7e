"""./ladder answer-key: every exercise with its solution, for the teacher."""

import difflib
import pathlib

import exercises
import grade
import workbench
from student_copy import HandoutError


def page(exercise, possible):
    lines = [f"# {exercise.id} {exercise.title}", "",
             f"*{exercises.KINDS[exercise.kind]}, {exercise.minutes} minutes, {possible} points*", "", exercise.task.strip(), "", "## Hints", ""]
    lines += [f"{n}. {hint.strip()}" for n, hint in enumerate(exercise.hints, 1)]
    if exercise.kind == "fix":
        mutant = exercises.mutant_named(f"{exercise.phase}/{exercise.mutant}")
        lines += ["", "## The mistake", "", f"*{mutant.title}*. What somebody who writes this believes: {mutant.misconception}", "",
                  f"Why it is wrong: {mutant.why}"]
    lines += ["", "## Points", "", "| for | points |", "|---|---:|"]
    expressions = {budget.name: f" (`{budget.expression}`)" for budget in exercise.budgets}
    lines += [f"| {title}{expressions.get(title, '')} | {points or '0: the starting point has it'} |" for title, points in workbench.worth(exercise).items()]
    if exercise.afterwards:
        lines += ["", "## Afterwards", "", exercise.afterwards.strip()]
    diff = difflib.unified_diff(exercise.starting_point().splitlines(), exercise.solved().splitlines(), "starting point", "solution", lineterm="")
    return "\n".join([*lines, "", "## From the starting point to the solution", "", "```diff", *diff, "```", ""])


def add_arguments(parser):
    parser.add_argument("folder", metavar="DIR", help="a folder that does not exist yet, or is empty")


def run(arguments):
    target = pathlib.Path(arguments.folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise HandoutError(f"{target} is there already; a new or empty folder is accepted")
    known = exercises.read()
    if known[0].solved() is None:
        raise HandoutError("this is a hand-out, and has no solutions")
    possible = grade.possible_points(known)
    index = ["# Answer key", "", "| | exercise | kind | minutes | points |", "|---|---|---|---:|---:|"]
    for exercise in known:
        folder = target / exercise.folder
        folder.mkdir(parents=True)
        name = pathlib.Path(exercise.file).name
        (folder / name).write_text(exercise.solved())
        (folder / f"start_{name}").write_text(exercise.starting_point())
        (folder / "README.md").write_text(page(exercise, possible[exercise.name]))
        index.append(f"| {exercise.id} | [{exercise.title}]({exercise.folder}/README.md) | {exercises.KINDS[exercise.kind]} | "
                     f"{exercise.minutes} | {possible[exercise.name]} |")
    (target / "README.md").write_text("\n".join([*index, ""]))
    print(f"{len(known)} solutions in {target}; begin with {target / 'README.md'}")
    return 0
