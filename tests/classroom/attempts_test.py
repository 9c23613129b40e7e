"""What somebody writes who has nearly understood it, and what the judge then says: the check that fails, and words that help. The
attempts lie in the phases, <phase>/rung/attempts.py.

  python3 attempts_test.py [PHASE | PHASE.Attempts.TEST]…      LADDER_BUILD_DIR says where the judge is

Some of the phases that are named, or of each; all of them where LADDER_TEST_ALL is set, as `./ladder test --all` does, or one part where
that is K/N. A test that is named is run in any case.
"""

import importlib.util
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/classroom"), str(ROOT / "tests")]

import exercises  # noqa: E402
import share  # noqa: E402


def script(phase):
    spec = importlib.util.spec_from_file_location(phase, ROOT / phase / "rung/attempts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPTS = {phase: script(phase) for phase in exercises.phases() if (ROOT / phase / "rung/attempts.py").exists()}
globals().update(SCRIPTS)  # so that a name on the command line finds them


def todays(phases):
    """Of the attempts of all phases one part, and of that what these phases have; without --all a sample of each phase's."""
    loader = unittest.defaultTestLoader
    attempts = {phase: list(loader.loadTestsFromTestCase(module.Attempts)) for phase, module in SCRIPTS.items()}
    if not os.environ.get("LADDER_TEST_ALL"):
        return [test for phase in phases for test in share.sample(attempts[phase])]
    return [test for phase, test in share.of((phase, test) for phase in SCRIPTS for test in attempts[phase]) if phase in phases]


def load_tests(_, tests, __):
    tests.addTests(todays(PHASES))
    return tests


PHASES = [argument for argument in sys.argv[1:] if argument in SCRIPTS] or list(SCRIPTS)

if __name__ == "__main__":
    if not todays(PHASES):
        print(f"NOT RUN: {', '.join(PHASES)}: part {os.environ['LADDER_TEST_ALL']} of the attempts has none of them")
        sys.exit(77)
    unittest.main(argv=[argument for argument in sys.argv if argument not in SCRIPTS])
