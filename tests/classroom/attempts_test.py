"""What somebody writes who has nearly understood it, and what the judge then says: the check that fails, and words that help. The
attempts lie in the phases, <phase>/rung/attempts.py.

  python3 attempts_test.py [PHASE.Attempts[.TEST]…]      LADDER_BUILD_DIR says where the judge is

If none is named: all of them, or one part where LADDER_TEST_ALL is K/N, as `./ladder test --all --part K/N` sets it.
"""

import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))

import exercises  # noqa: E402
import share  # noqa: E402


def script(phase):
    spec = importlib.util.spec_from_file_location(phase, ROOT / phase / "rung/attempts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPTS = {phase: script(phase) for phase in exercises.phases() if (ROOT / phase / "rung/attempts.py").exists()}
globals().update(SCRIPTS)  # so that a name on the command line finds them


def load_tests(loader, tests, _):
    attempts = [test for module in SCRIPTS.values() for test in loader.loadTestsFromTestCase(module.Attempts)]
    tests.addTests(share.of(attempts))
    return tests


if __name__ == "__main__":
    unittest.main()
