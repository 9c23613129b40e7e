"""Closes `./ladder test`: what passed, what failed, what was not run and why.

Reads the JUnit file that CTest wrote. Exits with 1 if a test failed or nothing ran.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def said_not_run(case):
    """What a test program says it did not run, and why, in its own words."""
    return re.findall(r"^NOT RUN: (.*)$", case.findtext("system-out") or "", re.MULTILINE)


def in_short(lines):
    """Tests that were not run for the same reason, on one line: "where: Suite.Test/case: why" each."""
    by_reason = {}
    for line in lines:
        _, test, why = line.split(": ", 2)
        names = by_reason.setdefault(why, [])
        name = re.sub(r"(^[^/.]*/)|(/.*$)", "", test)  # without the prefix and the parameter of a parameterized test
        if name not in names:
            names.append(name)
    return [f"{', '.join(names)}: {why}" for why, names in by_reason.items()]


def checks_in(case):
    """How many GoogleTest cases a test program passed."""
    said = re.search(r"\[  PASSED  \] (\d+) test", case.findtext("system-out") or "")
    return int(said.group(1)) - len(said_not_run(case)) if said else 1


def slowest(cases, most=8, least_seconds=2):
    """The tests that took longest, as lines of a table: where the time went that somebody waited for."""
    timed = sorted(((float(case.get("time") or 0), case.get("name")) for case in cases), reverse=True)
    rows = [(f"{seconds:.0f} s", name) for seconds, name in timed[:most] if seconds >= least_seconds]
    return ["slowest"] + [f"  {seconds:>6}  {name}" for seconds, name in rows] if rows else []


def main(path, seconds, **of_the_slowest):
    passed, failed, not_run = [], [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        (passed if status == "run" else failed if status == "fail" else not_run).append(case)

    for case in failed:
        print(f"failed   {case.get('name')}")
    for case in not_run:
        print(f"not run  {case.get('name')}: {'; '.join(said_not_run(case)) or 'it gave no reason'}")
    for case in passed:
        for line in in_short(said_not_run(case)):
            print(f"not run  in {case.get('name')}: {line}")
    for line in slowest(passed + failed, **of_the_slowest):
        print(line)
    checks = sum(checks_in(case) for case in passed)
    print(f"{checks} checks in {len(passed)} test programs held, in {seconds} s")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(not_run)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
