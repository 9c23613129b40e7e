"""End-to-end tests of ./ladder quiz.

  python3 quiz_test.py PATH/ladder-program PATH/libflash_ladder.so commands|python

commands   what the program prints, asks and writes, and the ladder's own commands that it shows
python     the lines of Python that it shows; not run (77) where this python has no torch
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LIBRARY, PART = sys.argv[1:4]


def run(*arguments, answers="", cwd=None):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300, input=answers, cwd=cwd,
                          env={**os.environ, "LADDER_COMMIT": "abc123"})


@functools.cache  # one run of all kernels for all who look at it
def quiz(*arguments, answers=""):
    """What it said, and what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "quiz.json")
        result = run("quiz", *arguments, "--json", file, answers=answers)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        with open(file) as stream:
            return result.stdout, json.load(stream)


def shown_commands(start):
    _, report = quiz("--show", "--seed", "1")
    commands = {q["command"]: q for q in report["questions"] if q["command"].startswith(start)}
    assert commands, f"no command starts with {start}"
    return commands.items()


class Commands(unittest.TestCase):
    def test_show_has_everything_for_a_teacher(self):
        text, report = quiz("--show", "--seed", "1")
        self.assertEqual((report["commit"], report["seed"]), ("abc123", 1))
        self.assertEqual({q["phase"] for q in report["questions"]}, set(range(10)))
        flowing = " ".join(text.split())
        for q in report["questions"]:
            self.assertEqual(q["outcome"], "shown")
            self.assertEqual(sum(c["right"] for c in q["choices"]), 1, q["id"])
            self.assertEqual(len({c["text"] for c in q["choices"]}), len(q["choices"]), q["id"])
            for words in (q["situation"], q["question"], q["command"], q["section"], *(c["why"] for c in q["choices"])):
                self.assertIn(" ".join(words.split()), flowing, q["id"])
        self.assertNotIn("\033", text)
        self.assertIn("computed just now:", text)

    def test_list(self):
        result = run("quiz", "2", "--list")
        self.assertEqual(result.returncode, 0, result.stderr)
        ids = re.findall(r"(?m)^(\d\.\S+)  +\S", result.stdout)
        self.assertGreaterEqual(len(ids), 5)
        self.assertTrue(all(i.startswith("2.") for i in ids), ids)
        _, report = quiz("2", "--show", "--seed", "4")
        self.assertEqual([q["id"] for q in report["questions"]], ids)

    def test_a_session_by_pipe(self):
        _, shown = quiz("--question", "3.keys-read", "--question", "4.keys-read", "--question", "5.keys-read",
                        "--show", "--seed", "11")
        letter = [{c["right"]: "abcde"[n] for n, c in enumerate(q["choices"])} for q in shown["questions"]]
        answers = f"{letter[0][True]}\n{letter[1][False]}\n?\n{letter[1][True].upper()}\ns\nnever read\n"
        text, report = quiz("--question", "3.keys-read", "--question", "4.keys-read", "--question", "5.keys-read",
                            "--question", "1.wall-a", "--seed", "11", answers=answers)
        outcomes = [(q["outcome"], len(q["answers"]), q["hint_taken"]) for q in report["questions"]]
        self.assertEqual(outcomes, [("right", 1, False), ("right", 2, True), ("skipped", 0, False), ("quit", 0, False)])
        self.assertEqual(report["questions"][0]["answers"], [shown["questions"][0]["right"]])
        self.assertIn("3 of 4 questions done", text)
        self.assertIn('"neverread" is no answer here', text)
        self.assertNotIn("\033", text)

    def test_quit_and_nothing_at_all(self):
        for answers in ("q\n", ""):
            result = run("quiz", "0", answers=answers)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("No question was answered.", result.stdout)

    def test_other_seeds_ask_with_other_numbers(self):
        texts = {tuple(q["situation"] for q in quiz("3", "--show", "--seed", seed)[1]["questions"]) for seed in "123"}
        self.assertEqual(len(texts), 3)

    def test_mistakes_are_named(self):
        for arguments, words in ((["--question", "9.nothing"], ["--question", "9.nothing", "0.safe-passes", "5.barriers"]),
                                 (["2", "--question", "3.blocks"], ["--question", "PHASE"]), (["99"], ["PHASE"]),
                                 (["--list", "--show"], ["--list", "--show"]), (["--seed", "many"], ["--seed", "many"]),
                                 (["0", "--json", "/nonexistent/folder/x.json"], ["--json", "/nonexistent/folder/x.json"])):
            result = run("quiz", *arguments)
            self.assertNotEqual(result.returncode, 0, arguments)
            for word in words:
                self.assertIn(word, result.stdout + result.stderr, arguments)

    def test_shown_commands_run_and_are_about_the_same_entry(self):
        not_run = set()
        with tempfile.TemporaryDirectory() as folder:
            for command, question in shown_commands("./ladder "):
                with self.subTest(command=command):
                    result = run(*command.split()[1:], cwd=folder)
                    if missing := re.search(r"this program was built without Gloo.*", result.stderr):
                        self.assertIn(" ring ", command)
                        not_run.add(f"NOT RUN: quiz_test: shown commands of phase 9: {missing[0]}")
                        continue
                    self.assertEqual(result.returncode, 0, result.stderr)
                    if question["id"] == "1.one-key-more":
                        self.assertIn("cudaFuncSetAttribute gave cudaErrorInvalidValue", result.stdout)
                    elif " overflow " in command:
                        self.assertIn(f"N = {question['right'].split()[0]} launched", result.stdout)
                    elif " ring " in command:  # no kernel's name, but the same ring, which must be right
                        ranks = re.search(r"--ranks (\d+)", command)[1]
                        self.assertIn(f"   {ranks} ranks, ", result.stdout)
                        self.assertIn("  right\n", result.stdout)
                        if sent := re.search(r"bytes \((.+?)\)", question["right"]):
                            self.assertIn(f"  {sent[1]}", result.stdout)
                    else:
                        self.assertIn(question["source"].split()[0], result.stdout)
        print("\n".join(not_run))


class Python(unittest.TestCase):
    def test_shown_lines_run_and_give_what_was_said(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "build"))
            os.symlink(LIBRARY, os.path.join(folder, "build", "libflash_ladder.so"))
            for command, question in shown_commands("python3 -c "):
                with self.subTest(id=question["id"]):
                    result = subprocess.run(command.replace("python3", f"'{sys.executable}'", 1), shell=True, cwd=folder,
                                            capture_output=True, text=True, timeout=120)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertIn("tensor(", result.stdout)
                    # m, l and factors are not what an entry returns; everything else stands in the output.
                    if question["id"] not in ("0.larger-maximum", "0.merged-halves", "4.base-two"):
                        for number in re.findall(r"-?inf|\d+(?:\.\d+)?", question["right"].split(" (")[0]):
                            printed = [float(n) for n in re.findall(r"-?inf|\d+\.?\d*(?:e[+-]?\d+)?", result.stdout)]
                            self.assertTrue(any(p == float(number) or abs(p - float(number)) <= 1e-3 * abs(float(number))
                                                for p in printed), (number, result.stdout))


if __name__ == "__main__":
    if PART == "python":
        try:
            import torch  # noqa: F401  (the lines that are tried import it)
        except ImportError:
            print("NOT RUN: this python has no torch")
            sys.exit(77)
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Python if PART == "python" else Commands)
    sys.exit(not unittest.TextTestRunner().run(suite).wasSuccessful())
