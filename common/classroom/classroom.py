"""The classroom's commands: ./ladder learn, grade, student-copy and answer-key."""

import argparse
import sys

import budgets
import exercises
import grade
import handout
import learn
import marks
import workbench
import workspace

COMMANDS = {"learn": (learn, "exercises, at your own pace"), "grade": (grade, "points for a workspace"),
            "student-copy": (handout.student_copy, "a hand-out without solutions"),
            "answer-key": (handout.answer_key, "the teacher's copy of every solution")}


def main():
    parser = argparse.ArgumentParser(prog="ladder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (module, words) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=words, description=words[0].upper() + words[1:]))
    arguments = parser.parse_args()
    try:
        return COMMANDS[arguments.command][0].run(arguments)
    except (budgets.BudgetError, exercises.ExerciseError, marks.MarkError, workbench.WorkbenchError, workspace.WorkspaceError,
            handout.HandoutError, grade.GradeError) as error:
        print(f"ladder {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
