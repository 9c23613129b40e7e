"""Runs the programs of wrong kernels, which must have been built, and reports how each was found out.

  python3 run.py BUILD [PHASE…] [--part K/N] [--json FILE]

The exit code is 0 only if every mutant was caught, and by what its entry in the catalogue says. README.md beside this
describes the JSON.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import catalogue

# A program that says nothing for this long hangs. The slowest step of the catalogue takes about three seconds.
SILENCE = 120

# By how many times its bound a wrong result must be off in some trial.
LEAST_FACTOR = 3

VALUE_ALONE = ("yes", "no", "hangs", "does not run")


class Terminal:
    """Colour and one line of progress where somebody watches."""

    def __init__(self):
        self.watched = sys.stdout.isatty()
        coloured = self.watched and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        self.bold, self.red, self.dim, self.plain = ("\033[1m", "\033[31m", "\033[2m", "\033[0m") if coloured else [""] * 4
        self.tenth, self.lock = 0, threading.Lock()

    def progress(self, done, total):
        with self.lock:
            if self.watched:
                end = "" if done < total else "\r\033[K"
                print(f"\r\033[Krunning: {done} of {total} wrong kernels{end}", end="", flush=True)
            elif done * 10 // total > self.tenth:
                self.tenth = done * 10 // total
                print(f"  {done} of {total}", flush=True)


def run_once(program, names):
    """What one run of a program said, and how it ended: (events, the mutant that it never came back from, why)."""
    events, silent = [], False
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            [str(program), *names], stdout=subprocess.PIPE, stderr=errors, text=True) as process:

        def give_up():
            nonlocal silent
            silent = True
            process.kill()

        def watch():
            timer = threading.Timer(SILENCE, give_up)
            timer.start()
            return timer

        timer = watch()
        for line in process.stdout:
            timer.cancel()
            timer = watch()
            events.append(json.loads(line))
        code = process.wait()
        timer.cancel()
        errors.seek(0)
        last_words = (errors.read().strip().splitlines() or [f"exit code {code}"])[-1]
    if code == 0:
        return events, None, None
    stuck = events[-1] if events and "begins" in events[-1] else None
    return events, stuck, "hangs" if silent else last_words


class Result:
    """What became of one mutant."""

    def __init__(self, mutant):
        self.mutant = mutant
        self.killed_by = self.check = self.trial = self.message = self.value_alone = self.value_trial = None
        self.factor = None  # of a wrong result, how many times its bound it is off; None where it is NaN or infinite

    def take(self, event):
        if "caught_by" in event:
            self.killed_by, self.check = event["caught_by"], event.get("check")
            self.trial, self.message = event.get("trial"), event.get("message")
            self.factor = event.get("factor")
        elif "value_alone" in event:
            self.value_alone, self.value_trial = event["value_alone"], event["trial"]

    def never_came_back(self, stage, why):
        if stage == "checked":
            self.check, self.message = "nothing: it never came back", why
        self.value_alone = self.value_alone or ("hangs" if why == "hangs" else "does not run")

    def problem(self):
        """Why this mutant fails the command; nothing if it was caught as the catalogue says."""
        expected = self.mutant.caught_by
        if self.killed_by == expected and (self.factor is None or self.factor >= LEAST_FACTOR):
            return None
        file, trials = catalogue.chapter_of(self.mutant)
        if self.killed_by == expected:
            return (f"its result is only {self.factor:.3g} times its bound from the right one, in trial {self.trial}: less "
                    f"than {LEAST_FACTOR} could be taken for rounding. Add a trial that shows the mistake more plainly to "
                    f"{trials}.")
        if self.killed_by is None and self.check:
            return f"the program that ran it ended or was stopped: {self.message}"
        if self.killed_by is None:
            return ("no trial objects to it. Either the change makes no difference, and is no mutant: take it out of "
                    f"{file}. Or the tests cannot see a mistake: add a trial that shows it to "
                    f"{trials}, and a test.")
        return (f"killed by {self.killed_by} in trial {self.trial}, and its entry says {expected}. If that is how this "
                f"mistake ought to show, change caught_by in {file}. It said:\n"
                + "\n".join("    " + line for line in (self.message or "").strip().splitlines()[:6]))

    def json(self):
        m = self.mutant
        return {"phase": m.phase, "name": m.name, "title": m.title, "file": m.file, "element": m.element,
                "caught_by": m.caught_by, "killed_by": self.killed_by, "factor": self.factor, "trial": self.trial, "message": self.message,
                "value_alone": self.value_alone, "value_trial": self.value_trial, "passed": self.problem() is None}


def run_program(program, mutants, originals, step):
    """The results of a program's mutants, and complaints about its originals. A mutant that never comes back costs only
    itself: the program is started again for those after it."""
    results = {m.name: Result(m) for m in mutants}
    complaints, done, names = [], set(), [*originals, *results]
    while True:
        events, stuck, why = run_once(program, names)
        for event in events:
            name = event["mutant"]
            if name in results:
                results[name].take(event)
            elif event.get("caught_by"):
                complaints.append(f"{name}, which has no change, fails trial {event['trial']}: {event['message']}")
        finished = [e["mutant"] for e in events if "value_alone" in e and e["mutant"] in results]
        if stuck and stuck["mutant"] in results:
            results[stuck["mutant"]].never_came_back(stuck["begins"], why)
            finished.append(stuck["mutant"])
        elif why is not None or (mutants and not finished):
            complaints.append(f"{program.name} ended early: {why or 'it does not know its mutants; build it again'}")
        step(len(set(finished) - done))
        done |= set(finished)
        names = [m.name for m in mutants if m.name not in done]
        if complaints or not names:
            step(len(names))
            return list(results.values()), complaints


def with_originals(programs, phases):
    """(program, its mutants, the originals that it runs too): the first program of each phase shows that the trials
    themselves are sound."""
    elements = {phase.folder: phase.elements() for phase in phases if not isinstance(phase, catalogue.HostCode)}
    for name, mutants in programs.items():
        originals = elements.pop(mutants[0].phase, []) if mutants else ["f32"]  # of host code, a program of its own
        yield name, mutants, [f"original_{e}" for e in originals]


def report(results, terminal):
    """The tables, and what must be mended."""
    widths = [max([len(head), *(len(cell(r) or "") for r in results)]) for head, cell in COLUMNS]
    phases = dict.fromkeys(r.mutant.phase for r in results)
    for phase in phases:
        of_phase = [r for r in results if r.mutant.phase == phase]
        print(f"\n{terminal.bold}{phase}{terminal.plain}: {len(of_phase)} wrong kernels\n")
        print("  " + terminal.dim +
              "  ".join(head.ljust(width) for (head, _), width in zip(COLUMNS, widths)).rstrip() + terminal.plain)
        for r in of_phase:
            line = "  ".join((cell(r) or "-").ljust(width) for (_, cell), width in zip(COLUMNS, widths)).rstrip()
            print(f"  {terminal.red}{line}  <- see below{terminal.plain}" if r.problem() else f"  {line}")


COLUMNS = (("mutant", lambda r: r.mutant.name),
           ("killed by", lambda r: r.check or "NOTHING"),
           ("trial", lambda r: r.trial),
           ("times its bound", lambda r: r.factor and f"{r.factor:.3g}"),
           ("value alone", lambda r: r.value_alone))


def summary(results):
    killed = [r for r in results if r.problem() is None]
    by_value = sum(r.killed_by == catalogue.REFERENCE for r in killed)
    return {"mutants": len(results), "killed": len(killed), "by_diagnosis": len(killed) - by_value, "by_value": by_value,
            **{"value_alone_" + v.replace(" ", "_"): sum(r.value_alone == v for r in results) for v in VALUE_ALONE}}


def main():
    parser = argparse.ArgumentParser(prog="./ladder mutants")
    parser.add_argument("build", type=pathlib.Path)
    catalogue.add_selection(parser)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    arguments = parser.parse_args()
    phases, _ = catalogue.read()
    programs = catalogue.select(phases, arguments.phases, arguments.part)
    total, done, started = sum(map(len, programs.values())), 0, time.monotonic()
    terminal, lock = Terminal(), threading.Lock()

    def step(count):
        nonlocal done
        with lock:
            done += count
            terminal.progress(done, total)

    commit = os.environ.get("LADDER_COMMIT", "unknown")
    if not terminal.watched:
        print(f"running {total} wrong kernels, commit {commit}", flush=True)
    workers = int(os.environ.get("LADDER_JOBS") or os.cpu_count())
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        outcomes = list(pool.map(
            lambda item: run_program(arguments.build / "tests/mutants" / item[0], *item[1:], step),
            with_originals(programs, phases)))
    results = [r for of_program, _ in outcomes for r in of_program]
    complaints = list(dict.fromkeys(c for _, of_program in outcomes for c in of_program))

    report(results, terminal)
    for r in results:
        if r.problem():
            print(f"\n{terminal.red}{r.mutant.name}{terminal.plain} ({r.mutant.title}; {r.mutant.file}): {r.problem()}")
    for complaint in complaints:
        print(f"\n{terminal.red}{complaint}{terminal.plain}")
    s = summary(results)
    passed = not complaints and s["killed"] == s["mutants"] > 0
    print(f"\n{s['killed']} of {s['mutants']} wrong kernels killed: {s['by_diagnosis']} by a diagnosis, {s['by_value']} by "
          f"comparison with the reference, in {time.monotonic() - started:.0f} s")
    print(f"without the diagnoses: {s['value_alone_no']} would have passed for right, {s['value_alone_hangs']} would hang, "
          f"{s['value_alone_does_not_run']} would not run")
    if arguments.json:
        part = arguments.part and "/".join(map(str, arguments.part))
        arguments.json.write_text(json.dumps(
            {"commit": commit, "part": part, "passed": passed, "summary": s,
             "complaints": complaints, "mutants": [r.json() for r in results]}, indent=2) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except catalogue.CatalogueError as error:
        sys.exit(f"ladder: {error}")
