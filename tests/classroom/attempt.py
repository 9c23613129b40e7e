"""What the phases' rung/attempts.py are made with; attempts_test.py runs them."""

import pathlib
import tempfile
import unittest

import exercises
import workbench

KNOWN = exercises.read()


class Attempt(unittest.TestCase):
    def verdict(self, name, *changes, begin="solved"):
        """The verdict on an exercise's solution, or starting point, with changes [find, replace]."""
        exercise = exercises.find(KNOWN, name)
        text = exercise.solved() if begin == "solved" else exercise.starting_point()
        for find, replace in changes:
            self.assertEqual(text.count(find), 1, find)
            text = text.replace(find, replace)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / pathlib.Path(exercise.file).name
            file.write_text(text)
            verdict = workbench.judge(exercise, file, seed=7)
        self.assertEqual(verdict.stage, "judged", verdict.report)
        return verdict

    def judged(self, name, *changes, begin="solved"):
        """The same of an attempt that does not pass."""
        verdict = self.verdict(name, *changes, begin=begin)
        self.assertFalse(verdict.passed)
        return verdict

    def assert_says(self, verdict, *words, mistake=""):
        failed = verdict.first_failure
        for word in words:
            self.assertIn(word, "\n".join([failed.title, failed.trial, *failed.report]))
        self.assertEqual(failed.mistake, mistake)

    def assert_only_fails(self, verdict, title):
        self.assertEqual([check.title for check in verdict.checks if not check.passed], [title])
