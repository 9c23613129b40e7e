"""A phase is one room: outside its folder, only the one list, pages and recorded results name a phase's folder or its kernels.

  python3 rooms_test.py REPOSITORY
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1]).resolve()
PHASES = (ROOT / "common/rung/phases.txt").read_text().split()
LOOKED_AT = ("CMakeLists.txt", "CMakePresets.json", "ladder", ".ci", "common", "docs", "tests")
TEXT = {"", ".cmake", ".cpp", ".cu", ".cuh", ".h", ".in", ".js", ".json", ".py", ".sh", ".toml", ".txt"}

# What may name them, and why. A folder stands for all that is in it.
ALLOWED = {
    "common/rung/phases.txt": "the one list",
    "docs/results": "recorded results",
    "common/python": "has a function for each operator, with its types and its help",
    "tests/mutants": "tries changed host code, the phases' entries among it, which only whole calls can judge",
    "tests/structure_test.py": "has trees with mistakes, whose folders are called like phases",
    "tests/cli": "holds the program's output, phase by phase, against what the chapters promise",
    "tests/python": "calls every operator by its name, as Python does",
    "tests/site": "looks in the site's index for names that must be there, and for some that must not",
    "tests/machine_speed": "races three kernels against plain loops that compute the same",
    "tests/classroom": "cheats at exercises, and looks for their answers in a hand-out: both are phases' own files",
    "tests/fuzz": "has tests of phases as the fuzzer prints them, to see that they compile",
}


def kernels_and_entries():
    """{name: the folder that it is from}: kernels, and functions that the phases' headers declare."""
    names = {}
    for phase in PHASES:
        for file in sorted((ROOT / phase).glob("*.cuh")):
            for name in re.findall(r"__global__[^;{]*?\b(\w+_kernel)\s*\(", file.read_text()):
                names[name] = phase
        for file in sorted((ROOT / phase).glob("*.h")):
            for name in re.findall(r"^(?:AttentionResult|GlobalBytes|torch::Tensor) (\w+)\(", file.read_text(), re.MULTILINE):
                names[name] = phase
    return names


def files():
    for start in (ROOT / path for path in LOOKED_AT):
        for file in [start] if start.is_file() else sorted(start.rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.is_file() and file.suffix in TEXT and not any(path == a or path.startswith(a + "/") for a in ALLOWED):
                yield path, file.read_text(errors="replace")


def found(words, text):
    """(line number, word) for each of the words in the text."""
    pattern = re.compile(r"(?<![\w])(" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + r")(?!\w|\.(?:cuh|cpp|h)\b)")
    return [(number, match[1]) for number, line in enumerate(text.splitlines(), 1) for match in pattern.finditer(line)]


class Rooms(unittest.TestCase):
    def test_the_list_and_the_folders_are_the_same(self):
        self.assertEqual(sorted(PHASES), sorted(path.name for path in ROOT.glob("phase*_*") if (path / "CMakeLists.txt").exists()))
        for number, phase in enumerate(PHASES):
            self.assertTrue(phase.startswith(f"phase{number}_"), f"{phase} is number {number} of the list")

    def test_nobody_else_names_a_phase_or_its_kernels(self):
        names = kernels_and_entries()
        self.assertGreater(len(names), 2 * len(PHASES))
        said = [f"{path}:{line}: {word}" for path, text in files() for line, word in found([*PHASES, *names], text)]
        self.assertFalse(said, "what knows a phase by name belongs into its folder:\n  " + "\n  ".join(said))

    def test_what_is_allowed_is_needed(self):
        names = [*PHASES, *kernels_and_entries()]
        for path in ALLOWED:
            under = [ROOT / path] if (ROOT / path).is_file() else [f for f in (ROOT / path).rglob("*") if f.is_file() and f.suffix in TEXT]
            self.assertTrue(any(found(names, file.read_text(errors="replace")) for file in under), f"{path} names none any more: take it off")

    def test_phases_know_no_other_phase(self):
        said = []
        for phase in PHASES:
            for file in sorted((ROOT / phase).rglob("*")):
                if file.suffix in {".h", ".cpp", ".cuh"}:
                    said += [f"{file.relative_to(ROOT)}:{line}: {word}" for line, word in
                             found([f"{other}/" for other in PHASES if other != phase], file.read_text())]
        self.assertFalse(said, "a phase knows common/ and never another phase:\n  " + "\n  ".join(said))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
