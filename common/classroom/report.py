"""A verdict in words, for a terminal."""

import exercises
import terminal
import workbench
from terminal import paint


def mistake_lines(name):
    """"looks like: …" for a mistake that the judge recognised."""
    title, hint = exercises.known_mistake(name)
    return [paint("yellow", f"looks like: {title}"), *terminal.wrapped(hint, "")]


def verdict_lines(verdict, when, name_the_mistake=True):
    """All of it. `when`: the time at which the learner's file was saved, in words. Who is to find a mistake is not told its name."""
    lines = [f"{paint('bold', verdict.exercise.id)} {verdict.exercise.title}   "
             f"{paint('dim', f'your file: {workbench.shown_path(verdict.file)}, saved {when}')}"]
    if verdict.stage == "refused":
        return [*lines, paint("red", "not run"), *("  " + line for line in terminal.plain(verdict.report))]
    if verdict.stage == "void":
        return [*lines, paint("red", "another kernel"), *("  " + line for line in terminal.plain(verdict.report))]
    if verdict.stage == "not judged":
        return [*lines, paint("yellow", "not judged: try it again"), *("  " + line for line in terminal.plain(verdict.report))]
    if verdict.stage == "not compiled":
        return [*lines, paint("red", "it does not compile"), *("  " + line for line in terminal.plain(verdict.report))]
    for check in verdict.checks:
        mark = paint("green", "right") if check.passed else paint("red", "wrong") if check.ran else paint("yellow", "not run")
        lines.append(f"  {mark}  {check.title}")
    if failed := verdict.first_failure:
        lines += ["", f"{paint('bold', failed.title)}: {failed.trial}", *("  " + line for line in terminal.plain(failed.report))]
        if failed.mistake and name_the_mistake:
            lines += ["  " + line for line in mistake_lines(failed.mistake)]
        elif failed.hint:
            lines += terminal.wrapped(failed.hint)
    if verdict.printed:
        lines += ["", paint("dim", "your kernel printed, which counts for nothing:"),
                  *("  " + line for line in terminal.plain(verdict.printed.splitlines(), most=8))]
    if verdict.passed:
        lines += ["", paint("green", f"Passed: all {verdict.trials} problems, {len(verdict.checks)} of {len(verdict.checks)} checks.")]
        if afterwards := verdict.exercise.earned([check.title for check in verdict.checks]):
            lines += ["", *terminal.wrapped(afterwards, "")]
    return lines
