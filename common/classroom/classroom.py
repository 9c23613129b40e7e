"""The classroom's commands: ./ladder learn, grade, student-copy and answer-key."""

import argparse
import importlib.util
import os
import signal
import sys

import budgets
import exercises
import grade
import learn
import marks
import sealed
import workbench
import workspace

COMMANDS = {"learn": (learn, "exercises, at your own pace"), "grade": (grade, "points for a workspace")}
MISTAKES = (budgets.BudgetError, exercises.ExerciseError, marks.MarkError, workbench.WorkbenchError, workspace.WorkspaceError,
            grade.GradeError, sealed.WrongWord)
if importlib.util.find_spec("student_copy"):  # hand-outs do not have it
    import answer_key
    import student_copy

    COMMANDS |= {"student-copy": (student_copy, "a hand-out without solutions"),
                 "answer-key": (answer_key, "the teacher's copy of every solution")}
    MISTAKES += (student_copy.HandoutError,)


def main():
    parser = argparse.ArgumentParser(prog="ladder", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (module, words) in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=words, description=words[0].upper() + words[1:]))
    arguments = parser.parse_args()
    for end in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: what is running is ended first, and what is known is written
        if signal.getsignal(end) == signal.SIG_DFL:
            signal.signal(end, signal.default_int_handler)
    try:
        return COMMANDS[arguments.command][0].run(arguments)
    except MISTAKES as error:
        print(f"ladder {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
