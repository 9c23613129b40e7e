"""Adds an empty phase to a copy of the repository: a folder, and a line in the list. Everything else must follow from these.

  python3 toy_phase_test.py REPOSITORY BUILD CMAKE

The copy is made of links, except for what is changed. It is configured, but not built: its two new sources are compiled, and linked
with what BUILD has compiled of the rest.
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD, CMAKE = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
LIST = "common/rung/phases.txt"
PHASES = (ROOT / LIST).read_text().split()
NUMBER = len(PHASES)
TOY = f"phase{NUMBER}_toy"
FILES = {
    "README.md": f"# Phase {NUMBER}: a toy, to climb on\n",
    "CMakeLists.txt": f"ladder_add_phase({TOY})\n",
    "rung/rung.cpp": f'#include "common/rung/phase.h"\n\nnamespace ladder::{TOY} {{\n\nPhase describe() {{ return {{.title = "toys, in stages"}}; }}\n\n'
                     f"}}  // namespace ladder::{TOY}\n",
}


def run(*command, folder=None, fails=False):
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if (result.returncode != 0) != fails:
        raise AssertionError(f"{shlex.join(map(str, command))}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def link_all(source, target, but):
    target.mkdir()
    for path in source.iterdir():
        if path.name not in but and not path.name.startswith(("build", ".git")):
            (target / path.name).symlink_to(path)


def cached(name):
    return re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]


class ToyPhase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name) / "tree"
        link_all(ROOT, cls.tree, but=("common", "CMakePresets.json"))
        link_all(ROOT / "common", cls.tree / "common", but=("rung",))
        link_all(ROOT / "common/rung", cls.tree / "common/rung", but=("phases.txt",))
        shutil.copy(ROOT / "CMakePresets.json", cls.tree)
        for name, text in FILES.items():
            (cls.tree / TOY / name).parent.mkdir(parents=True, exist_ok=True)
            (cls.tree / TOY / name).write_text(text)
        (cls.tree / LIST).write_text((ROOT / LIST).read_text() + TOY + "\n")
        cls.build = cls.tree / "build"
        options = [f"-D{name}={cached(name)}" for name in ("CMAKE_CXX_COMPILER", "CMAKE_BUILD_TYPE", "LADDER_CHECKS", "LADDER_SANITIZER")]
        run(CMAKE, "-S", cls.tree, "-B", cls.build, "-G", "Ninja", "-DLADDER_CUDA=OFF", *options)

    def compile(self, source, output):
        """As the copy would, but with the header that BUILD has precompiled."""
        entries = json.loads((self.build / "compile_commands.json").read_text())
        (command,) = {e["command"] for e in entries if e["file"].endswith(source)}
        command = re.sub(r"-o \S+", f"-o {output}", command)
        command = re.sub(r"-include \S*?/build(/\S+cmake_pch.hxx)", rf"-include {BUILD}\1", command)
        run("sh", "-c", command, folder=self.build)
        return str(output)

    def test_the_program_has_it(self):
        objects = [self.compile(f"{TOY}/rung/rung.cpp", self.tree / "rung.o"),
                   self.compile("common/cli/ladder_phases.cpp", self.tree / "list.o")]
        link = run("ninja", "-C", BUILD, "-t", "commands", "common/cli/ladder-run").strip().splitlines()[-1]
        program = self.tree / "ladder-run"
        known = next(word for word in link.split() if word.endswith("/ladder_phases.cpp.o"))
        link = link.replace(known, " ".join(objects)).replace(" -o common/cli/ladder-run ", f" -o {program} ")
        run("sh", "-c", link, folder=BUILD)
        self.assertIn(f"phases to walk, 0 to {NUMBER}", run(program, "run", "--help"))
        self.assertIn(f"Phase {NUMBER}   toys, in stages", run(program, "run", "--device", "cpu", str(NUMBER)))

    def test_the_build_has_its_programs(self):
        targets = run("ninja", "-C", self.build, "-t", "targets", "all")
        for target in (f"{TOY}_rung", f"ladder-run-{NUMBER}", f"ladder-profile-{NUMBER}", f"phase{NUMBER}_tests"):
            self.assertRegex(targets, rf"(?m)\b{target}\b")

    def test_a_phase_alone_is_built_without_the_others(self):
        for alone, others in (PHASES[3], PHASES[:3] + PHASES[4:]), (TOY, PHASES):
            program = "ladder-run-" + re.match(r"phase(\d+)", alone)[1]
            commands = run("ninja", "-C", self.build, "-t", "commands", f"common/cli/{program}")
            self.assertIn(f"{alone}/CMakeFiles", commands)
            for folder in (*others, "common/fuzz", "common/cli/bench", "common/cli/quiz", "common/classroom"):
                self.assertNotIn(f"/{folder}/", commands, f"{program} needs it")

    def test_the_launcher_knows_it(self):
        self.assertIn(f"{NUMBER} a toy", run(self.tree / "ladder", "--help"))
        self.assertIn(f"(0 to {NUMBER})", run(self.tree / "ladder", "test", "--help"))
        self.assertIn(f"phases are 0 to {NUMBER}: ", run(self.tree / "ladder", "test", str(NUMBER + 1), fails=True))

    def test_the_presets_follow(self):
        script = (sys.executable, self.tree / "common/rung/make_presets.py", "--root", self.tree)
        self.assertIn("make_presets.py", run(*script, "--check", fails=True))
        run(*script)
        run(*script, "--check")
        self.assertIn(f'"phase{NUMBER}"', run(CMAKE, "--list-presets=all", folder=self.tree))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
