"""A hand-out shows no answer, names nothing that it lacks, and its judge, which has no libtorch, says what the full one says."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/classroom"), str(ROOT / "tests")]

import exercises  # noqa: E402
import given  # noqa: E402
import handout_pages  # noqa: E402
import leaks  # noqa: E402
import share  # noqa: E402
import student_copy  # noqa: E402

KNOWN = exercises.read()
BUILD = pathlib.Path(os.environ.get("LADDER_BUILD_DIR") or ROOT / "build")


def find(name):
    return exercises.find(KNOWN, name)


class Given(unittest.TestCase):
    def unfolded(self, text, files):
        lines = []
        for line in text.splitlines():
            if included := given.INCLUDED.match(line):
                lines[-1:] = files[included[1]].splitlines()  # instead of the heading, too
            else:
                lines.append(line)
        return "".join(line + "\n" for line in lines)

    def test_what_is_given_is_what_stood_there(self):
        for exercise in KNOWN:
            start, solved = exercise.starting_point(), exercise.solved()
            files = exercise.given_files(start)
            self.assertEqual(self.unfolded(start, files), exercise.whole_start(), exercise.id)
            self.assertEqual(self.unfolded(solved, files), exercise.whole_solution(), exercise.id)
            self.assertTrue(set(given.INCLUDED.findall(solved)) <= set(files), exercise.id)

    def test_each_asks_for_something(self):
        for exercise in KNOWN:
            self.assertTrue(given.secrets(exercise), exercise.id)
            self.assertTrue(any(given.shown(exercise.whole_solution(), secret) for secret in given.secrets(exercise)), exercise.id)
            self.assertFalse(leaks.shown_by(exercise, exercise.starting_point()), exercise.id)

    def test_a_barrier_is_known_by_its_neighbours(self):
        secret = given.secrets(find("3.3"))[0]
        self.assertGreater(len(secret.keys), 1)
        self.assertFalse(given.shown("__syncthreads();\n", secret))


class HandedOut(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.place.name) / "handout"
        said = cls.handed_out()
        assert said.returncode == 0, said.stdout + said.stderr
        assert f"{len(KNOWN)} exercises" in said.stdout, said.stdout
        cls.words = json.loads((pathlib.Path(cls.place.name) / "handout.words.json").read_text())

    @classmethod
    def handed_out(cls):
        return subprocess.run([sys.executable, str(ROOT / "common/classroom/classroom.py"), "student-copy", str(cls.folder)],
                              capture_output=True, text=True, env={**os.environ, "LADDER_BUILD_DIR": str(BUILD)}, timeout=1200)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def setUp(self):
        workspace = tempfile.TemporaryDirectory()
        self.addCleanup(workspace.cleanup)
        self.workspace = pathlib.Path(workspace.name)

    def planted(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if file.exists() else None
        file.write_text((before or "") + text)
        self.addCleanup(lambda: file.unlink() if before is None else file.write_text(before))

    def test_no_answer_lies_open(self):
        self.assertEqual(leaks.leaked(KNOWN, self.folder), [])

    def test_answers_are_found_wherever_they_lie(self):
        corrected = "        for (int first_key = 0; first_key < key_length; first_key += kDepthTile) {\n"
        self.planted("phase8_backward/other.cuh", corrected)                                           # another phase
        self.planted("phase4_causal/README.md", "```cpp\n" + find("5.2").whole_solution() + "```\n")   # a chapter
        self.planted("common/simt/notes.txt", find("1.4").whole_solution())                         # elsewhere
        self.planted("phase2_fa1/exercises/start/2.1_softmax_of_a_tile/fa1.cuh", "m(query) = m_new;  // kept\n")  # a starting point
        self.planted("phase9_ring/exercises/exercises.json", json.dumps(find("9.4").whole_solution()))  # quoted as JSON
        found = leaks.leaked(KNOWN, self.folder)
        for wanted in (("1.2", "phase8_backward/other.cuh"), ("5.2", "phase4_causal/README.md"), ("1.4", "common/simt/notes.txt"),
                       ("2.5", "phase2_fa1/exercises/start/2.1_softmax_of_a_tile/fa1.cuh"), ("9.4", "phase9_ring/exercises/exercises.json")):
            self.assertIn(wanted, found)

    def test_what_is_said_afterwards_is_not_readable_before(self):
        everything = b"\n".join(path.read_bytes() for path in self.folder.rglob("*") if path.is_file())
        for exercise in KNOWN:
            for text in (exercise.afterwards, *exercise.hints):
                for line in text.strip().splitlines():
                    if len(line) > 40 and line not in exercise.task:
                        self.assertNotIn(json.dumps(line, ensure_ascii=False)[1:-1].encode(), everything, exercise.id)

    def test_at_most_a_third_is_sealed(self):
        self.assertTrue(self.words)
        self.assertLessEqual(3 * len(self.words), len(KNOWN))

    def test_words_and_solutions_stay_with_the_teacher(self):
        self.assertFalse((self.folder / "tests").exists())
        for path in self.folder.rglob("*"):
            if path.is_file():
                text = path.read_text(errors="replace")
                self.assertFalse(path.suffix in (".cuh", ".cpp", ".h") and "// BEGIN SOLUTION" in text, path)
                for word in self.words.values():
                    self.assertNotIn(word, text)

    def test_nothing_is_handed_out_over_what_is_there(self):
        said = self.handed_out()
        self.assertEqual(said.returncode, 2)
        self.assertIn("is there already", said.stdout + said.stderr)

    def test_pages_name_nothing_that_is_not_there(self):
        self.assertEqual(handout_pages.dead_ends(self.folder), [])
        self.planted("phase3_fa2/README.md", "\nSee [there](nowhere.md), and `./ladder profile 3`.\n")
        self.assertEqual(handout_pages.dead_ends(self.folder),
                         ["phase3_fa2/README.md: links nowhere.md", "phase3_fa2/README.md: names ./ladder profile"])

    def test_commands_that_pages_name_are_known(self):
        said = subprocess.run([str(self.folder / "ladder"), "--help"], capture_output=True, text=True)
        for command in handout_pages.COMMANDS:
            self.assertIn(f"./ladder {command}", said.stdout)
        refused = subprocess.run([str(self.folder / "ladder"), "profile"], capture_output=True, text=True)
        self.assertIn("this is a hand-out", refused.stderr)

    def test_figures_are_there(self):
        images = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (self.folder / "phase3_fa2/README.md").read_text())
        wanted = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "phase3_fa2/README.md").read_text())
        self.assertEqual(images, wanted)
        self.assertTrue(images)

    def test_files_include_what_is_there(self):
        compiled = {path for exercise in KNOWN for path in exercise.included_files()}  # others are only shown beside a chapter
        own = {exercise.file for exercise in KNOWN}
        built = [*(self.folder / "common/classroom").rglob("*"), *(self.folder / "common/simt").rglob("*")]
        for file in [*built, *(self.folder / path for path in compiled)]:
            if file.suffix in (".cpp", ".h", ".cuh") and file.exists():
                for included in re.findall(r'^#include "((?!given/)[^"]+)"', file.read_text(), re.MULTILINE):
                    self.assertTrue((self.folder / included).exists() or included in own, f"{file} includes {included}")

    @classmethod
    @functools.cache
    def at_work(cls):
        """(a copy of it, where exercises are opened, and the build folder of its own judge). The machine is this build's: its sources are
        the same."""
        folder, build = pathlib.Path(cls.place.name) / "at_work", pathlib.Path(cls.place.name) / "build"
        shutil.copytree(cls.folder, folder)
        toolchain = build / "common/classroom/toolchain.json"

        def command(*words):
            said = subprocess.run(words, capture_output=True, text=True, timeout=900)
            assert said.returncode == 0, said.stdout + said.stderr

        command("cmake", "-S", folder, "-B", build, "-G", "Ninja")
        command("cmake", "--build", build, "--target", "classroom_judge")
        tools = json.loads(toolchain.read_text())
        command(tools["compiler"], *tools["options"], f"-I{folder}", "-x", "c++-header", tools["precompiled"], "-o", tools["precompiled"] + ".gch")
        runner = json.loads((BUILD / "common/classroom/toolchain.json").read_text())["runner"]
        toolchain.write_text(json.dumps(tools | {"runner": runner}))
        return folder, build

    def typed(self, root, build, *words, code=0):
        said = subprocess.run([sys.executable, str(root / "common/classroom/classroom.py"), *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, "LADDER_BUILD_DIR": str(build), "LADDER_WORKSPACE": str(self.workspace), "NO_COLOR": "1"}, timeout=1200)
        self.assertEqual(said.returncode, code, said.stdout + said.stderr)
        return said.stdout + said.stderr

    def test_its_judge_has_no_libtorch(self):
        _, build = self.at_work()
        self.assertNotIn("torch", subprocess.run(["ldd", build / "common/classroom/classroom_judge"], capture_output=True, text=True).stdout)

    def test_its_judge_says_what_the_full_one_says(self):
        rescaled = "l_i[i] = rescale * l_i[i] + row_sum"
        begun = "// begun\n"  # nobody runs what is still as it was given
        attempts = [("3.1", find("3.1").solved()), ("3.1", find("3.1").solved().replace(rescaled, "l_i[i] = l_i[i] + row_sum")),
                    ("4.1", find("4.1").starting_point() + begun), ("9.3", find("9.3").starting_point() + begun)]
        for name, text in attempts:
            exercise = find(name)
            with self.subTest(exercise=name):
                file = self.workspace / exercise.folder / pathlib.Path(exercise.file).name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
                said = {}
                for where, (root, build) in {"repository": (ROOT, BUILD), "hand-out": self.at_work()}.items():
                    grades = self.workspace / "grades.json"
                    self.typed(root, build, "grade", name, "--seed", student_copy.SEED, "--json", grades, "--require", "0")
                    checks = json.loads(grades.read_text())["exercises"][0]["checks"]
                    # Of exercises that answer with numbers alone, the recording has only these, and fewer words.
                    words = exercise.suite["problem"] == "attention"
                    said[where] = [(c["title"], c["points"], c["trial"], c["report"][:1] if words else [], c["mistake"]) for c in checks]
                self.assertTrue(said["repository"], name)
                self.assertEqual(said["repository"], said["hand-out"], name)

    def test_exercises_work_in_it(self):
        """One of every third phase, and a sealed one; for `./ladder test --all` all, or a part."""
        chosen = share.of(KNOWN) if os.environ.get("LADDER_TEST_ALL") else [exercise for exercise in KNOWN if exercise.number == 4][::3]
        checked = next(exercise for exercise in [*chosen, *KNOWN] if exercise.id in self.words)
        others = [exercise for exercise in chosen if exercise is not checked]
        hand_out = self.at_work()
        for exercise in (checked, *others):
            if exercise.id in self.words:
                self.assertIn("sealed", self.typed(*hand_out, "learn", "start", exercise.id, code=2))
                self.assertIn("does not open it", self.typed(*hand_out, "learn", "open", exercise.id, "babebibobo10", code=2))
                self.assertIn("is open", self.typed(*hand_out, "learn", "open", exercise.id, self.words[exercise.id]))
            self.typed(*hand_out, "learn", "start", exercise.id)
            file = self.workspace / exercise.folder / pathlib.Path(exercise.file).name
            self.assertEqual(file.read_text(), exercise.starting_point())
            file.write_text(exercise.solved())
        self.assertIn("invalid choice", self.typed(*hand_out, "learn", "solution", "--anyway", code=2))
        self.assertIn("Passed: all", self.typed(*hand_out, "learn", "check", checked.id))
        if others:
            said = self.typed(*hand_out, "grade", *(exercise.id for exercise in others), "--seed", student_copy.SEED)
            self.assertEqual(said.count(" passed"), len(others), said)


if __name__ == "__main__":
    unittest.main()
