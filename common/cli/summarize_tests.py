"""Closes `./ladder test`: what passed, what failed, what was not run and why.

Reads the JUnit file that CTest wrote. Exits with 1 if a test failed or nothing ran.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree


def reason(case):
    """Why a test was not run, in its own words."""
    output = case.findtext("system-out") or ""
    said = re.search(r"^NOT RUN: (.*)$", output, re.MULTILINE)
    return said.group(1) if said else "it gave no reason"


def checks_in(case):
    """How many GoogleTest cases a test program passed."""
    said = re.search(r"\[  PASSED  \] (\d+) test", case.findtext("system-out") or "")
    return int(said.group(1)) if said else 1


def main(path, seconds):
    passed, failed, not_run = [], [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        (passed if status == "run" else failed if status == "fail" else not_run).append(case)

    for case in failed:
        print(f"failed   {case.get('name')}")
    for case in not_run:
        print(f"not run  {case.get('name')}: {reason(case)}")
    checks = sum(checks_in(case) for case in passed)
    print(f"{checks} checks in {len(passed)} test programs held, in {seconds} s")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(not_run)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
