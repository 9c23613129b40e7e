"""Who does not write the kernel gets no points for it, and nothing that a learner's file does harms the grader."""

import pathlib
import resource
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))

import exercises  # noqa: E402
import workbench  # noqa: E402

EXERCISE = exercises.find(exercises.read(), "online_update")
KERNEL = "    simt::SharedArena arena;"  # a line of the kernel


def processor_seconds():
    """What ended programs have had that were started here."""
    had = resource.getrusage(resource.RUSAGE_CHILDREN)
    return had.ru_utime + had.ru_stime


class Cheats(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / pathlib.Path(EXERCISE.file).name
        self.solved = EXERCISE.solved()

    def judged(self, text, **options):
        self.file.write_text(text)
        return workbench.judge(EXERCISE, self.file, seed=7, **options)

    def in_kernel(self, code):
        self.assertEqual(self.solved.count(KERNEL), 1)
        return self.solved.replace(KERNEL, code + "\n" + KERNEL)

    def assert_nothing(self, verdict, *words):
        said = "\n".join([*verdict.report, *(line for check in verdict.checks for line in check.report)])
        self.assertEqual(verdict.points, 0, said)
        for word in words:
            self.assertIn(word, said)

    def test_the_solution_itself_passes(self):
        verdict = self.judged(self.solved)
        self.assertTrue(verdict.passed)
        self.assertEqual(verdict.points, verdict.possible)

    def test_printing_that_all_is_well(self):
        text = EXERCISE.starting_point().replace(KERNEL, 'std::printf("PASSED 10 of 10\\n");\n' + KERNEL)
        verdict = self.judged(text.replace("#pragma once\n", "#pragma once\n#include <cstdio>\n"))
        self.assert_nothing(verdict)
        self.assertIn("PASSED", verdict.printed)

    def test_endless_loop(self):
        begun = {}
        verdict = self.judged(self.in_kernel("volatile int n = 0; while (n == 0) { }"), jobs=2,
                              progress=lambda step: begun.setdefault(step, processor_seconds()))
        self.assert_nothing(verdict, "without end", "did not come to an end")
        self.assertLess(processor_seconds() - begun["running"], 2 * workbench.TRIAL_SECONDS + 2)  # a trial for each job, no second one
        self.assertFalse(any(check.ran for check in verdict.checks[1:]))

    def test_crash(self):
        self.assert_nothing(self.judged(self.in_kernel("volatile int n = 4; float a[4] = {}; if (a[n] == 1) return;")), "an index of an array")

    def test_stack_overflow(self):
        self.assert_nothing(self.judged(self.in_kernel("volatile char far[1 << 24]; far[0] = 1;")), "stack overflow")

    def test_no_end_of_printing(self):
        text = self.in_kernel("for (;;) std::puts(\"PASSED\");").replace("#pragma once\n", "#pragma once\n#include <cstdio>\n")
        self.assert_nothing(self.judged(text), "without end")

    def test_other_seeds_are_other_numbers_and_the_same_points(self):
        wrong = self.solved.replace("l_i[i] = rescale * l_i[i] + row_sum", "l_i[i] = l_i[i] + row_sum")
        self.file.write_text(wrong)
        first, second = (workbench.judge(EXERCISE, self.file, seed=seed).checks for seed in (7, 8))
        self.assertEqual([(check.title, check.passed, check.trial) for check in first], [(check.title, check.passed, check.trial) for check in second])
        self.assertTrue({check.passed for check in first} == {True, False})
        budgets = {budget.name for budget in EXERCISE.budgets}  # not looked at where results are wrong
        for one, other in zip(first, second):
            self.assertTrue(one.passed or one.title in budgets or one.report != other.report, one.title)

    def test_files_that_are_no_kernels(self):
        for text in ("", "this is not C++\n", "\0\0\0"):
            verdict = self.judged(text)
            self.assertEqual(verdict.stage, "refused")
            self.assertTrue(verdict.report)
        self.file.write_bytes(b"\xff\xfe\xfd")
        self.assertEqual(workbench.judge(EXERCISE, self.file, seed=7).stage, "refused")

    def test_compile_errors_are_of_the_learners_lines(self):
        broken = self.solved.replace("const float m_safe = safe_maximum(m_new);", "const float m_safe = safe_maximun(m_new);")
        line = next(n for n, text in enumerate(broken.splitlines(), 1) if "safe_maximun" in text)
        verdict = self.judged(broken)
        self.assertEqual(verdict.stage, "not compiled")
        self.assertIn(f"line {line}:", verdict.report[0])
        self.assertIn("safe_maximun", verdict.report[0])


if __name__ == "__main__":
    unittest.main()
