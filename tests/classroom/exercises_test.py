"""Every exercise, proven: its starting point compiles and fails with a message that helps, its solution passes, and nothing of
the solution is in the starting point.

  python3 exercises_test.py [EXERCISE…]      LADDER_BUILD_DIR says where the judge is

If none is named: all of them where LADDER_TEST_ALL is set, as `./ladder test --all` does, or one part of them, where it is K/N; and
otherwise one of each kind, each of another phase.
"""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/classroom"), str(ROOT / "tests")]

import exercises  # noqa: E402
import marks  # noqa: E402
import share  # noqa: E402
import workbench  # noqa: E402

SEED = 20260101


def leaks(exercise):
    """Lines of the solution that the starting point still has, more often than the rest of the kernel has them."""
    if exercise.kind == "fix":
        return [] if exercise.starting_point() != exercise.solved() else ["the starting point is the solution"]
    text = exercise.source()
    start = [line.strip() for line in exercise.starting_point().splitlines()]
    outside = [line.strip() for piece in marks.pieces(text) if piece.name not in exercise.solution
               for line in [*piece.lines, *(other for p in marks.pieces(text) for other in p.instead)]]
    return [line for line in marks.solution_lines(text, exercise.solution) if start.count(line) > outside.count(line)]


def problems_of(exercise, folder):
    found = []
    if exercise.solved() is None:
        return ["it has no solution"]
    if leaked := leaks(exercise):
        found.append("the starting point has lines of the solution: " + "; ".join(leaked))
    file = pathlib.Path(folder) / exercise.folder / pathlib.Path(exercise.file).name
    file.parent.mkdir(parents=True)
    file.write_text(exercise.starting_point())
    begin = workbench.judge(exercise, file, SEED)
    if begin.stage != "judged":
        found.append(f"the starting point is {begin.stage}: " + "\n".join(begin.report))
    elif begin.passed:
        found.append("the starting point passes")
    elif not begin.first_failure.report:
        found.append("the starting point fails without a word")
    elif exercise.begins_with is not None and (passed := [check.title for check in begin.checks if check.passed]) != exercise.begins_with:
        found.append(f"begins_with is {exercise.begins_with}, and the starting point has {passed}")
    elif begin.points:
        found.append(f"the starting point earns {begin.points} points")
    file.write_text(exercise.solved())
    end = workbench.judge(exercise, file, SEED)
    if end.passed and end.points != sum(workbench.worth(exercise).values()):
        found.append(f"the solution earns {end.points} points, not all")
    if not end.passed:
        failed = end.first_failure
        found.append(f"the solution is {end.stage}, and fails: " +
                     "\n    ".join([f"{failed.title}: {failed.trial}", *failed.report] if failed else end.report))
    print(f"{exercise.id} {exercise.title}: {'proven' if not found else 'NOT PROVEN'}"
          + (f" (begins with: {begin.first_failure.title}: {begin.first_failure.report[0]}"
             + (f"; {begin.first_failure.mistake}" if begin.first_failure.mistake else "") + ")" if begin.first_failure else ""), flush=True)
    return found


def one_of_each_kind(known):
    phases = sorted({exercise.phase for exercise in known}, reverse=True)
    return [next(exercise for exercise in known if (exercise.phase, exercise.kind) == (phase, kind))
            for phase, kind in zip(phases, exercises.KINDS)]


def main(wanted):
    known = exercises.read()
    everything = share.of(known) if os.environ.get("LADDER_TEST_ALL") else one_of_each_kind(known)
    chosen = [exercises.find(known, word) for word in wanted] or everything
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        for exercise in chosen:
            if found := problems_of(exercise, folder):
                wrong[exercise.id] = found
    for number, found in wrong.items():
        for problem in found:
            print(f"{number}: {problem}")
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} exercises proven")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
