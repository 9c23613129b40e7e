"""./ladder learn, grade and answer-key as somebody types them. handout_test.py has student-copy, and what is typed in a hand-out."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))

import exercises  # noqa: E402

KNOWN = exercises.read()
EXERCISE = exercises.find(KNOWN, "online_update")
FILE = f"{EXERCISE.folder}/{pathlib.Path(EXERCISE.file).name}"
BUILD = os.environ.get("LADDER_BUILD_DIR") or str(ROOT / "build")


class Typed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.workspace = self.folder / "workspace"

    def command(self, *words):
        return [sys.executable, str(ROOT / "common/classroom/classroom.py"), *map(str, words)]

    def environment(self):
        return {**os.environ, "LADDER_WORKSPACE": str(self.workspace), "LADDER_BUILD_DIR": BUILD, "NO_COLOR": "1"}

    def typed(self, *words, code=0):
        said = subprocess.run(self.command(*words), capture_output=True, text=True, env=self.environment(), timeout=1200,
                              cwd=self.folder)
        self.assertEqual(said.returncode, code, said.stdout + said.stderr)
        return said.stdout + said.stderr

    def file(self, exercise=EXERCISE):
        return self.workspace / exercise.folder / pathlib.Path(exercise.file).name


class Learn(Typed):
    def test_from_the_list_to_the_next(self):
        listed = self.typed("learn")
        for exercise in KNOWN:
            self.assertIn(f"  {exercise.id}  ", listed)
        self.assertIn(f"0 of {len(KNOWN)} passed", listed)
        self.assertIn(f"workspace/{FILE}", self.typed("learn", "start", EXERCISE.id))
        self.assertEqual(self.file().read_text(), EXERCISE.starting_point())

        failed = self.typed("learn", "check", code=1)
        self.assertIn(f"your file: workspace/{FILE}, saved ", failed)
        self.assertIn("wrong  one tile", failed)
        self.assertIn("learn hint 3.1", failed)
        self.assertIn("no hint of 3.1 was given yet", self.typed("learn", "hint", "--all"))
        for level in (1, 2, 3):
            said = self.typed("learn", "hint")
            self.assertEqual(re.findall(r"hint (\d) of 3", said), [str(level)])
            self.assertEqual("hint 3.1 --all" in said, level > 1)
        self.assertIn("all 3 hints are given", self.typed("learn", "hint"))
        self.assertEqual(re.findall(r"hint (\d) of 3", self.typed("learn", "hint", "--all")), ["1", "2", "3"])
        self.assertIn("not passed yet", self.typed("learn", "solution", code=1))
        self.assertEqual(self.typed("learn", "solution", "--anyway"), EXERCISE.solved())
        difference = self.typed("learn", "diff", "--anyway")
        self.assertIn("+            m_i[i] = m_new;", difference)
        self.assertNotRegex(difference, r"watch_\w+\(")
        self.assertIn("calls of watch_… are left out", difference)

        self.file().write_text(EXERCISE.solved())
        passed = self.typed("learn", "check", "--seed", "5")
        self.assertIn("Passed: all", passed)
        self.assertIn("If you wrote a large negative number such as -1e30f", passed)
        self.assertIn("letter by letter", self.typed("learn", "diff"))
        self.file().write_text(re.sub(r" *watch_\w+\([^;]*;\n", "", EXERCISE.solved()))
        self.assertIn("yours is the solution\ncalls of watch_…", self.typed("learn", "diff"))
        self.file().write_text(EXERCISE.solved())
        self.assertIn("3.1  passed ", self.typed("learn", "list"))
        kept = self.typed("learn", "reset")
        self.assertEqual(self.file().read_text(), EXERCISE.starting_point())
        self.assertEqual((self.folder / kept.split(" is in ")[1].strip()).read_text(), EXERCISE.solved())
        self.assertIn("3.2 ", self.typed("learn", "next").splitlines()[0])

    def test_starting_again_keeps_what_is_there(self):
        self.typed("learn", "start", EXERCISE.id)
        self.file().write_text("mine\n")
        self.typed("learn", "start", EXERCISE.id)
        self.assertEqual(self.file().read_text(), "mine\n")

    def test_mistakes_in_the_command(self):
        self.assertIn('no exercise "9.9"', self.typed("learn", "start", "9.9", code=2))
        self.assertIn("Nothing is started yet", self.typed("learn", "check", code=2))
        self.assertIn("is not started", self.typed("learn", "check", EXERCISE.id, code=1))
        self.assertIn("invalid choice", self.typed("learn", "strat", code=2))
        self.workspace.mkdir()
        (self.workspace / "progress.json").write_text("{")
        self.assertIn("progress.json cannot be read", self.typed("learn", code=2))

    def test_a_known_mistake_is_named_as_the_front_page_shows(self):
        page = (ROOT / "README.md").read_text()
        shown = page.split("a first try at 3.1:\n\n```\n")[1].split("\n```")[0]
        self.typed("learn", "start", "3.1")
        self.file().write_text(EXERCISE.solved().replace("l_i[i] = rescale * l_i[i] + row_sum", "l_i[i] = l_i[i] + row_sum"))
        said = self.typed("learn", "check", "3.1", "--seed", "1", code=1)
        without_time = re.sub(r"saved [\d:]+", "saved 18:42:07", said)
        self.assertTrue(without_time.startswith(shown), without_time)
        self.assertIn("looks like: the old sum l_i not rescaled", said)
        self.assertIn("expected", said)

    def test_who_is_to_find_a_mistake_is_not_told_its_name(self):
        self.typed("learn", "start", "3.4")
        said = self.typed("learn", "check", code=1)
        self.assertNotIn("looks like", said)
        self.assertIn("Nothing is changed yet", said)
        self.typed("learn", "hint")
        self.typed("learn", "hint")
        self.assertIn("looks like: the old sum l_i not rescaled", self.typed("learn", "check", code=1))

    def test_watching(self):
        self.typed("learn", "start", EXERCISE.id)
        watching = subprocess.Popen(self.command("learn", "watch"), stdout=subprocess.PIPE, text=True, env=self.environment(), cwd=self.folder)
        try:
            def wait_for(words):
                late = threading.Timer(300, watching.kill)  # then its output ends
                late.start()
                try:
                    if not any(words in line for line in watching.stdout):
                        self.fail(f"{words} was never said")
                finally:
                    late.cancel()

            wait_for("wrong  one tile")
            wait_for("stuck?")
            saved = self.file().stat().st_mtime_ns
            solved = self.file().with_name("solved")
            solved.write_text(EXERCISE.solved())
            os.utime(solved, ns=(saved, saved))  # as if both had been written at once
            solved.replace(self.file())
            wait_for("Passed: all")
            watching.send_signal(signal.SIGINT)
            self.assertEqual(watching.wait(20), 0)
        finally:
            watching.kill()
            watching.stdout.close()
            watching.wait()


class Grade(Typed):
    def test_points_as_table_and_as_data(self):
        softcap = exercises.find(KNOWN, "softcap")
        self.typed("learn", "start", EXERCISE.id)
        self.typed("learn", "start", softcap.id)
        self.typed("learn", "start", "3.6")
        self.file().write_text(EXERCISE.solved())
        self.file(softcap).write_text(softcap.starting_point() + "// mine\n")
        grades, scope = self.folder / "grades.json", self.folder / "results.json"
        said = self.typed("grade", "3.1", "3.5", "3.6", "--seed", "11", "--json", grades, "--gradescope", scope, code=1)
        self.assertRegex(said, r"3\.1 +70 of +70 .* passed")
        self.assertRegex(said, r"3\.5 +0 of +60")
        self.assertRegex(said, r"3\.6 +0 of +100 .* untouched")
        data = json.loads(grades.read_text())
        self.assertEqual((data["format"], data["seed"], data["points"], data["possible"]), (2, 11, 70, 230))
        self.assertEqual([e["stage"] for e in data["exercises"]], ["judged", "judged", "untouched"])
        results = json.loads(scope.read_text())
        self.assertEqual(results["score"], 70)
        self.assertEqual(sum(test["max_score"] for test in results["tests"]), 230)
        self.typed("grade", "3.1", "3.6", "--require", "70")  # 3.6 is still untouched, and not run

    def test_no_workspace(self):
        self.assertIn("there is no folder", self.typed("grade", code=2))


class AnswerKey(Typed):
    def test_the_answer_key_has_every_solution(self):
        self.assertIn(f"{len(KNOWN)} solutions", self.typed("answer-key", self.folder / "key"))
        for exercise in KNOWN:
            folder = self.folder / "key" / exercise.folder
            self.assertEqual((folder / pathlib.Path(exercise.file).name).read_text(), exercise.solved())
            self.assertIn(exercise.title, (folder / "README.md").read_text())


if __name__ == "__main__":
    unittest.main()
