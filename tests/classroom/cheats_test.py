"""Who does not write the kernel gets no points for it, and nothing that a learner's file does harms the grader."""

import pathlib
import re
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))

import exercises  # noqa: E402
import workbench  # noqa: E402

EXERCISE = exercises.find(exercises.read(), "online_update")
LAUNCH = re.search(r"^void launch_\w+\(const AttentionArguments& a\) {", EXERCISE.solved(), re.MULTILINE)[0]  # the host's side of the file
KERNEL = "    simt::SharedArena arena;"  # and a line of the kernel

# Attention in plain loops, into memory that a kernel should have written.
HOST_LOOPS = """
    const float *Q = static_cast<const float*>(a.q.data), *K = static_cast<const float*>(a.k.data), *V = static_cast<const float*>(a.v.data);
    float *O = static_cast<float*>(a.out.data), *LSE = static_cast<float*>(a.lse.data);
    const auto Sq = a.query_length(), Sk = a.key_length(), D = a.head_dim();
    for (long bh = 0; bh < a.batch() * a.query_heads(); ++bh)
        for (long i = 0; i < Sq; ++i) {
            const long b = bh / a.query_heads(), h = bh % a.query_heads() / (a.query_heads() / a.kv_heads()), kv = b * a.kv_heads() + h;
            float m = -INFINITY, l = 0;
            for (long d = 0; d < D; ++d) O[(bh * Sq + i) * D + d] = 0;
            for (long j = 0; j < Sk; ++j) {
                float s = 0;
                for (long d = 0; d < D; ++d) s += Q[(bh * Sq + i) * D + d] * K[(kv * Sk + j) * D + d];
                s *= a.scale;
                const float m_new = s > m ? s : m, r = expf(m - m_new), p = expf(s - m_new);
                l = l * r + p;
                for (long d = 0; d < D; ++d) O[(bh * Sq + i) * D + d] = O[(bh * Sq + i) * D + d] * r + p * V[(kv * Sk + j) * D + d];
                m = m_new;
            }
            for (long d = 0; d < D; ++d) O[(bh * Sq + i) * D + d] /= l;
            LSE[bh * Sq + i] = m + logf(l);
        }
"""


class Cheats(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / pathlib.Path(EXERCISE.file).name
        self.solved = EXERCISE.solved()

    def judged(self, text, **options):
        self.file.write_text(text)
        return workbench.judge(EXERCISE, self.file, seed=7, **options)

    def on_host(self, code):
        self.assertEqual(self.solved.count(LAUNCH), 1)
        return self.solved.replace(LAUNCH, LAUNCH + "\n" + code)

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
        text = EXERCISE.starting_point().replace(LAUNCH, LAUNCH + '\n std::printf("PASSED 10 of 10\\n");')
        verdict = self.judged(text.replace("#pragma once\n", "#pragma once\n#include <cstdio>\n"))
        self.assert_nothing(verdict)
        self.assertIn("PASSED", verdict.printed)

    def test_ending_early(self):
        self.assert_nothing(self.judged(self.on_host("std::exit(0);")), "exit")

    def test_libtorch(self):
        self.assert_nothing(self.judged("#include <torch/types.h>\n" + self.solved), "torch/types.h")

    def test_attention_in_plain_loops_on_the_host(self):
        self.assert_nothing(self.judged(self.on_host(HOST_LOOPS + "return;")), "never written by a kernel")

    def test_plain_loops_and_a_forged_record(self):
        self.assert_nothing(self.judged(self.on_host(HOST_LOOPS + "simt::note_host_write(a.out.data, 4); return;")), "line ")

    def test_writing_to_an_input(self):
        self.assert_nothing(self.judged(self.on_host("static_cast<float*>(a.v.data)[0] = 0;")), "ended by the system")

    def test_writing_beyond_the_output(self):
        self.assert_nothing(self.judged(self.on_host("for (long n = 0; n < 1 << 20; ++n) static_cast<float*>(a.lse.data)[n] = 0;")),
                            "ended by the system")

    def test_endless_loop(self):
        begun = time.monotonic()
        verdict = self.judged(self.in_kernel("volatile int n = 0; while (n == 0) { }"))
        self.assert_nothing(verdict, "without end", "did not come to an end")
        self.assertLess(time.monotonic() - begun, 15 + 15)  # 15 s on an idle machine; tests share theirs
        self.assertFalse(any(check.ran for check in verdict.checks[1:]))

    def test_crash(self):
        self.assert_nothing(self.judged(self.in_kernel("volatile float* p = nullptr; *p = 1;")), "stray pointer", "it is null")
        # (volatile twice: what follows a write to a pointer that it knows to be null, the compiler leaves out)
        self.assert_nothing(self.judged(self.on_host("volatile float* volatile p = nullptr; *p = 1;")), "ended by the system")

    def test_stack_overflow(self):
        self.assert_nothing(self.judged(self.in_kernel("volatile char far[1 << 24]; far[0] = 1;")), "stack overflow")

    def test_no_end_of_printing(self):
        text = self.on_host("for (;;) std::puts(\"PASSED\");").replace("#pragma once\n", "#pragma once\n#include <cstdio>\n")
        self.assert_nothing(self.judged(text), "without end")

    def test_files_and_programs(self):
        for code in ('std::system("true");', 'std::fopen("/etc/passwd", "r");', "fork();"):
            self.assert_nothing(self.judged(self.on_host(code).replace("#pragma once\n", "#pragma once\n#include <string>\n")))

    def test_something_before_main(self):
        text = self.solved.replace("inline constexpr int kFa2Threads", "struct Early { Early() { n = 1; } int n; };\nEarly early;\ninline constexpr int kFa2Threads")
        self.assert_nothing(self.judged(text), "before the program begins")

    def test_other_seeds_are_other_problems(self):
        wrong = EXERCISE.starting_point()
        self.file.write_text(wrong)
        first = {check.trial for check in workbench.judge(EXERCISE, self.file, seed=1).checks}
        second = {check.trial for check in workbench.judge(EXERCISE, self.file, seed=2).checks}
        self.assertGreater(len(first - second), 2)

    def test_files_that_are_no_kernels(self):
        for text in ("", "this is not C++\n", "\0\0\0"):
            verdict = self.judged(text)
            self.assertEqual(verdict.stage, "not compiled")
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
