"""./ladder learn: exercises for one person, at their own pace."""

import datetime
import difflib
import json
import random
import re
import time

import exercises
import report
import sealed
import terminal
import workbench
from terminal import paint
from workspace import Workspace

WATCH_SECONDS = 0.3
HINTS_BEFORE_THE_NAME = 2  # of the mistake that somebody is to find


def first_open(known, space):
    """Where to begin, or to go on."""
    able = [exercise for exercise in known if not exercise.sealed] or known
    return next((exercise for exercise in able if not space.of(exercise).get("started")), able[0])


def listing(known, space):
    lines, phase = [], None
    current = space.current(known)
    for exercise in known:
        if exercise.phase != phase:
            phase = exercise.phase
            lines += ["", paint("bold", f"Phase {exercise.id.split('.')[0]}") + f"   {phase}/README.md"]
        facts = space.of(exercise)
        state = (paint("green", "passed ") if facts.get("passed") else
                 paint("yellow", "started") if facts.get("started") else "sealed " if exercise.sealed else "       ")
        here = "  <- you are here" if current is exercise else ""
        lines.append(f"  {exercise.id}  {state}  {exercises.KINDS[exercise.kind]:9}  {exercise.minutes:2} min  {exercise.title}{here}")
    done = sum(bool(space.of(e).get("passed")) for e in known)
    minutes = sum(e.minutes for e in known if not space.of(e).get("passed"))
    lines += ["", f"{done} of {len(known)} passed" + (f", {minutes} minutes of work left" if minutes else "") +
              f"   ./ladder learn start {first_open(known, space).id}"]
    return lines[1:]


def task_lines(exercise, file):
    return [f"{paint('bold', exercise.id + ' ' + exercise.title)}   {exercises.KINDS[exercise.kind]}, {exercise.minutes} minutes", "",
            *terminal.wrapped(exercise.task), "",
            f"  file   {workbench.shown_path(file)}",
            f"  then   ./ladder learn check {exercise.id}      (or: watch {exercise.id}, which checks whenever you save)",
            f"  help   ./ladder learn hint {exercise.id}       and {exercise.phase}/README.md"]


def start(known, space, exercise):
    if not space.file(exercise).exists():
        space.start(exercise)
    space.remember(exercise)
    return task_lines(exercise, space.file(exercise)), 0


def open_(known, space, exercise, word):
    """Opens a sealed exercise of a hand-out."""
    if not exercise.sealed:
        return [f"{exercise.id} is open"], 0
    content = sealed.opened(json.loads((exercises.ROOT / exercise.sealed).read_text()), word)
    for path, text in content.pop("files").items():
        place = exercises.ROOT / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    place = exercises.ROOT / exercise.phase / "exercises/opened" / f"{exercise.number}.json"
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps(content, indent=2) + "\n")
    return [f"{exercise.id} is open: ./ladder learn start {exercise.id}"], 0


def saved_at(file):
    return datetime.datetime.fromtimestamp(file.stat().st_mtime).strftime("%H:%M:%S")


def check(known, space, exercise, seed=None):
    file = space.file(exercise)
    if not file.exists():
        return [f"{exercise.id} is not started: `./ladder learn start {exercise.id}` gives you {workbench.shown_path(file)}"], 1
    progress = terminal.Progress()
    begun = time.monotonic()
    when = saved_at(file)
    verdict = workbench.judge(exercise, file, random.SystemRandom().getrandbits(32) if seed is None else seed, progress=progress)
    progress.clear()
    hints = space.of(exercise).get("hints", 0)
    unchanged = file.read_text(errors="replace") == exercise.starting_point()
    to_be_named = hints >= HINTS_BEFORE_THE_NAME if exercise.kind == "fix" else not unchanged
    lines = report.verdict_lines(verdict, when, to_be_named)
    if not verdict.passed and unchanged:
        lines += ["", "Nothing is changed yet: this is the starting point."]
    if verdict.passed:
        space.passed(exercise)
        beside = "" if exercises.IS_HAND_OUT else f"`./ladder learn diff {exercise.id}` shows yours beside ours; "
        lines.append(beside + "`./ladder learn next` goes on.")
    else:
        if space.of(exercise).get("passed"):
            lines += ["", "You had passed this one; what counts is that you did."]
        space.remember(exercise)
        left = exercises.HINTS - hints
        lines += ["", paint("dim", f"stuck? ./ladder learn hint {exercise.id}   ({left} of {exercises.HINTS} left)" if left else
                            "no hints are left: ask your teacher" if exercises.IS_HAND_OUT else
                            f"no hints are left: ./ladder learn solution {exercise.id} --anyway")]
    lines.append(paint("dim", f"{time.monotonic() - begun:.1f} s"))
    return lines, 0 if verdict.passed else 1


def watch(known, space, exercise, seed=None):
    file = space.file(exercise)
    if not file.exists():
        return check(known, space, exercise)
    print(f"checking {workbench.shown_path(file)} whenever it is saved; Ctrl-C ends this", flush=True)
    seen = None
    try:
        while True:
            try:
                status = file.stat()
                # An editor empties a file and then fills it, which may be too close together for two times.
                now = status.st_mtime_ns, status.st_size
            except FileNotFoundError:  # between two steps of an editor's saving
                now = seen
            if now != seen:
                seen = now
                lines, _ = check(known, space, exercise, seed)
                print("\n" + "\n".join(lines), flush=True)
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return [""], 0


def hint(known, space, exercise, all=False):
    """The next one; with `all` those that were given."""
    given = space.of(exercise).get("hints", 0)
    if not all and given < exercises.HINTS:
        given += 1
        levels = [given]
    else:
        levels = range(1, given + 1) if all else []
    space.remember(exercise, hints=given)
    lines = []
    for level in levels:
        lines += [paint("bold", f"hint {level} of {exercises.HINTS}"), *terminal.wrapped(exercise.hint(level)), ""]
    if not lines:
        lines.append(f"no hint of {exercise.id} was given yet: `./ladder learn hint {exercise.id}` gives the first" if all else
                     f"all {exercises.HINTS} hints are given")
    if given > len(levels):
        lines.append(f"`./ladder learn hint {exercise.id} --all` shows {'them' if not levels else 'the earlier ones, too'}.")
    if given == exercises.HINTS:
        lines.append("There are no more: ask your teacher." if exercises.IS_HAND_OUT else
                     f"There are no more. `./ladder learn solution {exercise.id} --anyway` shows how it is done.")
    return lines, 0


def reset(known, space, exercise):
    backup = space.reset(exercise)
    lines = [f"{workbench.shown_path(space.file(exercise))} is the starting point again"]
    return lines + ([f"what you had is in {workbench.shown_path(backup)}"] if backup else []), 0


def _not_yet(space, exercise, anyway):
    if not anyway and not space.of(exercise).get("passed"):
        return [f"{exercise.id} is not passed yet. `./ladder learn hint {exercise.id}` helps without giving it away;",
                "--anyway shows it all the same."]
    return None


def unwatched(text):
    """A kernel without the calls that only ./ladder trace has a use for."""
    return re.sub(r"^ *watch_\w+\([^;]*\);\n", "", text, flags=re.MULTILINE)


def solution(known, space, exercise, anyway=False):
    if refused := _not_yet(space, exercise, anyway):
        return refused, 1
    return exercise.solved().splitlines(), 0


def diff(known, space, exercise, anyway=False):
    if refused := _not_yet(space, exercise, anyway):
        return refused, 1
    file = space.file(exercise)
    yours, ours = file.read_text() if file.exists() else exercise.starting_point(), exercise.solved()
    lines = list(difflib.unified_diff(*(unwatched(text).splitlines() for text in (yours, ours)), workbench.shown_path(file), "solution",
                                      lineterm=""))
    tint = {"+": "green", "-": "red", "@": "dim"}
    painted = [paint(tint[line[0]], line) if line[:1] in tint else line for line in lines]
    if yours == ours:
        return ["yours is the solution, letter by letter"], 0
    if not lines:
        painted = ["yours is the solution"]
    if unwatched(ours) != ours:
        painted.append(paint("dim", "calls of watch_… are left out: they show values to ./ladder trace, and compute nothing"))
    return painted, 0


def next_(known, space):
    """The first that is not passed, after the current one if there is one left there."""
    current = space.current(known)
    after = known[known.index(current) + 1:] if current else []
    for exercise in [*after, *known]:
        if not space.of(exercise).get("passed") and not exercise.sealed:
            return start(known, space, exercise)
    return [paint("green", "All exercises that are open are passed.")], 0


ACTIONS = {"start": start, "check": check, "watch": watch, "hint": hint, "reset": reset, "diff": diff, "solution": solution, "open": open_}


def add_arguments(parser):
    commands = parser.add_subparsers(dest="action", metavar="ACTION")
    commands.add_parser("list", help="all exercises and how far you are (also with no action)")
    for name, words in (("start", "gives you the file to work on, and the task"), ("check", "builds your file and tries it"),
                        ("watch", "checks whenever you save"), ("hint", "the next hint, more concrete than the last"),
                        ("reset", "puts the starting point back; yours is kept aside"),
                        ("diff", "yours against the solution, once passed"), ("solution", "the solution, once passed")):
        if exercises.IS_HAND_OUT and name in ("diff", "solution"):
            continue
        action = commands.add_parser(name, help=words)
        needs = name == "start"
        action.add_argument("exercise", nargs=None if needs else "?",
                            help="its number or name" + ("" if needs else "; the one you worked on last if not given"))
        if name in ("check", "watch"):
            action.add_argument("--seed", type=int, help="the same problems again; drawn if not given")
        if name == "hint":
            action.add_argument("--all", action="store_true", help="those that you were given, again")
        if name in ("diff", "solution"):
            action.add_argument("--anyway", action="store_true", help="before it is passed, too")
    action = commands.add_parser("open", help="opens a sealed exercise of a hand-out, with the teacher's word")
    action.add_argument("exercise")
    action.add_argument("word")
    commands.add_parser("prepare", help="installs and builds what checks need, so that none has to wait for it")
    commands.add_parser("next", help="the next one that is not passed")


def run(arguments):
    known, space = exercises.read(), Workspace()
    match arguments.action:
        case "prepare":  # ./ladder has built it by now
            lines, code = [f"all is there: ./ladder learn start {first_open(known, space).id}"], 0
        case None | "list":
            lines, code = listing(known, space), 0
        case "next":
            lines, code = next_(known, space)
        case action:
            if arguments.exercise is not None:
                exercise = exercises.find(known, arguments.exercise)
            elif not (exercise := space.current(known)):
                raise exercises.ExerciseError(f"which exercise? Nothing is started yet: ./ladder learn start {first_open(known, space).id}")
            options = {key: value for key, value in vars(arguments).items() if key in ("all", "seed", "anyway", "word")}
            lines, code = ACTIONS[action](known, space, exercise, **options)
    print("\n".join(lines))
    return code
