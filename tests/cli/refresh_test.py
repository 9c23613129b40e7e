"""Tests of common/pages/refresh.py, in a small book with a small ladder of its own.

  python3 refresh_test.py PATH/refresh.py
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv[1]

LADDER = """#!/usr/bin/env python3
import pathlib, sys
calls = pathlib.Path(__file__).with_name("calls")
calls.write_text((calls.read_text() if calls.exists() else "") + " ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] != "show":
    sys.exit("there is no command " + sys.argv[1])
print(pathlib.Path(__file__).with_name("output").read_text(), end="")
"""

OUTPUT = """phase  kernel        time  error
    3  fa2_forward  12 ms  6.2e-04
    4  causal      1.4 s   9.0e-04
done: right
"""

CODE = """#pragma once

template <class T>
void kernel(T x) {
    for (int j = 0; j < 3; ++j) {
        use(x);  // the first
    }
    use(x + 1);
}
"""

EXERCISES = """[[exercise]]
kind = "build"
title = "The sum"
minutes = 40

[[exercise]]
kind = "fix"
title = "Wrong on Tuesday"
minutes = 15
"""

PAGE = """# A page

<!-- code: kernel.cuh | for (int j | } -->
<!-- end -->

<!-- code: kernel.cuh | use(x + 1) -->
<!-- end -->

<!-- output: show 3 | phase kernel | causal -->
<!-- end -->

- in a list

  <!-- output: show 3 | done: -->
  <!-- end -->

````
<!-- code: nothing.h -->
```
<!-- end -->
````

What comes after stays.
"""

REFRESHED = """# A page

<!-- code: kernel.cuh | for (int j | } -->
```cpp
for (int j = 0; j < 3; ++j) {
    use(x);  // the first
}
```
<!-- end -->

<!-- code: kernel.cuh | use(x + 1) -->
```cpp
use(x + 1);
```
<!-- end -->

<!-- output: show 3 | phase kernel | causal -->
```
phase  kernel        time  error
    3  fa2_forward  12 ms  6.2e-04
    4  causal      1.4 s   9.0e-04
```
<!-- end -->

- in a list

  <!-- output: show 3 | done: -->
  ```
  done: right
  ```
  <!-- end -->

````
<!-- code: nothing.h -->
```
<!-- end -->
````

What comes after stays.
"""


class Book(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("ladder", LADDER).chmod(0o755)
        self.write("output", OUTPUT)
        self.write("phase0_x/kernel.cuh", CODE)
        self.page = self.write("phase0_x/README.md", PAGE)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def refresh(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--root", self.root, "--program", self.root / "ladder", *arguments],
                              capture_output=True, text=True, timeout=60)

    def refreshed_page(self):
        self.assertEqual(self.refresh().returncode, 0)

    def assert_refused(self, page, *words):
        """Checking and refreshing both fail, and say why and where."""
        self.page.write_text(page)
        for arguments in (("--check",), ()):
            result = self.refresh(*arguments)
            self.assertEqual(result.returncode, 1, result.stderr)
            for word in ("phase0_x/README.md:", *words):
                self.assertIn(word, result.stderr)


class Pieces(Book):
    def test_a_page_is_filled_and_then_stays(self):
        result = self.refresh()
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.page.read_text(), REFRESHED)
        self.assertEqual(self.refresh("--check").returncode, 0)
        self.assertEqual(self.refresh().stdout, "")

    def test_a_command_runs_once_for_all_pages(self):
        self.write("docs/other.md", PAGE.replace("kernel.cuh", "../phase0_x/kernel.cuh"))
        self.refreshed_page()
        self.assertEqual((self.root / "calls").read_text(), "show 3\n")

    def test_only_the_named_pages(self):
        other = self.write("docs/other.md", "<!-- output: show | done -->\n<!-- end -->\n")
        self.assertEqual(self.refresh(other).returncode, 0)
        self.assertIn("done: right", other.read_text())
        self.assertEqual(self.page.read_text(), PAGE)

    def test_everything_that_is_printed(self):
        self.page.write_text("<!-- output: show -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn(OUTPUT, self.page.read_text())

    def test_what_a_python_program_prints(self):
        self.write("phase0_x/example.py", "print(1 + 1)\nprint('end')\n")
        self.page.write_text("<!-- python: example.py -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("```\n2\nend\n```", self.page.read_text())
        self.write("phase0_x/example.py", "print(1 + 2)\n")
        self.assertEqual(self.refresh("--check").returncode, 1)
        self.write("phase0_x/example.py", "1 / 0\n")
        self.assert_refused(self.page.read_text(), "python example.py: exit code 1", "ZeroDivisionError")

    def test_a_pragma_does_not_keep_the_indentation(self):
        self.write("phase0_x/loop.h", "void f() {\n#pragma unroll\n    for (;;) {\n        g();\n    }\n}\n")
        self.page.write_text("<!-- code: loop.h | pragma | } -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("```cpp\n#pragma unroll\nfor (;;) {\n    g();\n}\n```", self.page.read_text())

    def test_marks_of_exercises_are_not_quoted(self):
        marked = CODE.replace("        use(x);", "        // BEGIN SOLUTION first: use x\n        use(x);")
        marked = marked.replace("    }\n    use", "        //= use(0);\n        // END SOLUTION first\n    }\n    use")
        self.write("phase0_x/kernel.cuh", marked)
        self.refreshed_page()
        self.assertEqual(self.page.read_text(), REFRESHED)

    def test_code_with_a_fence_in_it(self):
        self.write("phase0_x/note.h", "/// ```\n/// x\n/// ```\n")
        self.page.write_text("<!-- code: note.h -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertEqual(self.page.read_text().count("````"), 2)
        self.assertEqual(self.refresh("--check").returncode, 0)


class Check(Book):
    def setUp(self):
        super().setUp()
        self.refreshed_page()

    def assert_red(self):
        before = self.page.read_text()
        result = self.refresh("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("phase0_x/README.md does not show what is so now", result.stderr)
        self.assertEqual(self.page.read_text(), before)

    def test_changed_code(self):
        self.write("phase0_x/kernel.cuh", CODE.replace("j < 3", "j < 4"))
        self.assert_red()

    def test_changed_page(self):
        self.page.write_text(REFRESHED.replace("use(x + 1);", "use(x + 2);"))
        self.assert_red()

    def test_changed_output(self):
        self.write("output", OUTPUT.replace("6.2e-04", "6.3e-04"))
        self.assert_red()

    def test_times_may_differ_and_then_nothing_is_rewritten(self):
        self.write("output", OUTPUT.replace("12 ms", "9.5 s ").replace("1.4 s ", "700 ms"))
        self.assertEqual(self.refresh("--check").returncode, 0)
        self.refreshed_page()
        self.assertEqual(self.page.read_text(), REFRESHED)

    def test_all_pages_quote_the_times_of_one_run(self):
        self.write("output", OUTPUT.replace("12 ms", "9.5 s "))
        other = self.write("docs/other.md", "<!-- output: show 3 | fa2_forward -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("fa2_forward  12 ms", other.read_text())
        other.write_text(other.read_text().replace("12 ms", "13 ms"))
        result = self.refresh("--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("docs/other.md does not show what is so now", result.stderr)

    def test_times_in_code_may_not(self):
        self.write("phase0_x/kernel.cuh", CODE.replace("// the first", "// 3 ms"))
        self.refreshed_page()
        self.write("phase0_x/kernel.cuh", CODE.replace("// the first", "// 4 ms"))
        self.assert_red()


class Refused(Book):
    def test_a_text_that_no_line_has(self):
        self.assert_refused(PAGE.replace("use(x + 1)", "use(x + 7)"), 'no line contains the first text "use(x + 7)"', ":6:")

    def test_a_text_that_two_lines_have(self):
        self.assert_refused(PAGE.replace("use(x + 1)", "use(x"), "2 lines contain", "lines 6, 8")

    def test_a_last_text_that_no_later_line_has(self):
        self.assert_refused(PAGE.replace("for (int j | }", "for (int j | template"), 'contains the last text "template"')

    def test_output_that_lacks_the_text(self):
        self.assert_refused(PAGE.replace("done:", "finished"), "ladder show 3: no line contains")

    def test_a_file_that_is_not_there(self):
        self.assert_refused(PAGE.replace("code: kernel.cuh | use", "code: kernels.cuh | use"), 'there is no file "kernels.cuh"')

    def test_a_command_that_fails(self):
        self.assert_refused(PAGE.replace("show 3 | done", "tell 3 | done"), "ladder tell 3: exit code 1", "there is no command tell")

    def test_no_end(self):
        self.assert_refused("<!-- code: kernel.cuh -->\n", "no <!-- end -->")
        self.assert_refused("<!-- code: kernel.cuh -->\n<!-- code: kernel.cuh -->\n<!-- end -->\n", "no <!-- end -->")
        self.assert_refused("<!-- end -->\n", "an end without a beginning")

    def test_a_mark_that_does_not_end(self):
        self.write("phase0_x/kernel.cuh", CODE.replace("    for", "    // BEGIN SOLUTION loop: use x\n    for"))
        self.assert_refused(PAGE, "kernel.cuh: loop has begun, and does not end")

    def test_too_many_texts(self):
        self.assert_refused("<!-- code: kernel.cuh | for | } | } -->\n<!-- end -->\n", "at most two texts")

    def test_the_other_pieces_are_refreshed_all_the_same(self):
        wrong = ("code: kernel.cuh | use(x + 1)", "code: kernel.cuh | use(x + 7)")
        self.page.write_text(REFRESHED.replace(*wrong).replace("done: right", "done: wrong"))
        self.refresh()
        self.assertEqual(self.page.read_text(), REFRESHED.replace(*wrong))


class Tables(Book):
    def test_timetable(self):
        words = "Some words to read. " * 200  # 800, at 130 a minute, rounded up to 10 minutes
        self.page.write_text(f"# Phase 0: a title\n\n*Reading: 35 minutes. Exercises: 60 minutes. You need: C++.*\n\n{words}\n")
        self.write("phase1_y/README.md", "# Phase 1\n\n*Reading: 5 minutes. Exercises: 45 minutes.*\n")
        self.write("docs/primer.md", "# Primer\n\n*Reading: 5 minutes.*\n")
        page = self.write("docs/instructors.md", "<!-- timetable -->\n<!-- end -->\n")
        self.refreshed_page()
        for row in ("| [Primer](primer.md) | 5 | 0 | 5 |", "| [Phase 0: a title](../phase0_x/README.md) | 10 | 60 | 70 |",
                    "| **all** | **20** | **105** | **125**, 2.1 hours |"):
            self.assertIn(row, page.read_text())
        self.assertLess(page.read_text().index("[Primer]"), page.read_text().index("[Phase 0"))

    def test_minutes_are_computed_from_the_words(self):
        words = "Some words to read. " * 200
        output = "<!-- output: show 3 | phase kernel | causal -->\n<!-- end -->\n"
        self.page.write_text(f"# Phase 0\n\n*Reading: 35 minutes.*\n\n{words}\n\n```\n{words}\n```\n\n{output}")
        result = self.refresh("--check")
        self.assertEqual(result.returncode, 1)
        self.refreshed_page()
        self.assertIn("*Reading: 10 minutes.*", self.page.read_text())
        self.assertEqual(self.refresh("--check").returncode, 0)

    def test_a_chapter_without_minutes(self):
        self.page.write_text("# Phase 0: a title\n")
        self.write("docs/instructors.md", "<!-- timetable -->\n<!-- end -->\n")
        result = self.refresh()
        self.assertEqual(result.returncode, 1)
        self.assertIn("phase0_x/README.md does not say", result.stderr)

    def test_a_chapter_whose_minutes_are_not_those_of_its_exercises(self):
        self.write("phase0_x/exercises/exercises.toml", EXERCISES)
        self.write("docs/instructors.md", "<!-- timetable -->\n<!-- end -->\n")
        self.page.write_text("# Phase 0: a title\n\n*Reading: 35 minutes. Exercises: 55 minutes.*\n")
        self.refreshed_page()
        self.assertEqual(self.refresh("--check").returncode, 0)
        for said in ("Exercises: 60 minutes.", ""):
            self.page.write_text(f"# Phase 0: a title\n\n*Reading: 35 minutes. {said}*\n")
            result = self.refresh("--check")
            self.assertEqual(result.returncode, 1)
            self.assertIn('phase0_x/README.md does not say "Exercises: 55 minutes."', result.stderr)

    def test_exercises(self):
        self.write("phase0_x/exercises/exercises.toml", EXERCISES)
        self.write("phase1_y/exercises/exercises.toml", EXERCISES.replace("The sum", "The loop"))
        page = self.write("phase0_x/exercises/README.md", "<!-- exercises: 0 -->\n<!-- end -->\n")
        every = self.write("docs/instructors.md", "<!-- exercises -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("|---|---|---:|---|\n| 0.1 | build | 40 | The sum |\n| 0.2 | fix | 15 | Wrong on Tuesday |\n", page.read_text())
        self.assertNotIn("| 1.", page.read_text())
        self.assertIn("| 0.2 | fix | 15 | [Wrong on Tuesday](../phase0_x/exercises/README.md) |\n"
                      "| 1.1 | build | 40 | [The loop](../phase1_y/exercises/README.md) |\n", every.read_text())
        self.assert_refused("<!-- exercises: two -->\n<!-- end -->\n", '"two" is not the number of a phase')
        self.assert_refused("<!-- exercises: 2 -->\n<!-- end -->\n", "there are none in phase 2")

    def test_speeds_of_one_phase(self):
        def case(phase, name):
            return {"phase": phase, "unit": "GB/s", "ceiling": "copy", "sweeps": ["headline"], "problem": {"text": "f32"},
                    "measurements": [{"role": "rung", "name": name, "rate": 12.0, "right": True, "ratios": {}}]}
        environment = {"device_name": "GPU", "driver": "1", "cuda": "2", "torch": "3", "cudnn": "4", "commit": "abc", "date": "2026-01-01"}
        self.write("docs/results/gpu/bench.json", json.dumps(
            {"environment": environment, "teaching_machine": False, "cases": [case(0, "softmax"), case(3, "fa2_forward")]}))
        self.page.write_text("<!-- speed: 3 -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("| 3 | fa2_forward | f32 | 12 GB/s |", self.page.read_text())
        self.assertNotIn("softmax", self.page.read_text())
        self.page.write_text("<!-- speed -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("| 0 | softmax |", self.page.read_text())
        self.assertNotIn("PyTorch, flash", self.page.read_text())
        self.write("docs/results/gpu/bench-phase4.json", json.dumps(
            {"environment": environment, "teaching_machine": False, "cases": [case(4, "causal_forward")]}))
        self.write("docs/results/gpu/ladder.svg", "<svg/>")
        self.refreshed_page()
        self.assertRegex(self.page.read_text(), r"(?s)\| 3 \| fa2_forward \|.*\| 4 \| causal_forward \|.*ladder\.svg")
        self.assertEqual(self.page.read_text().count("ladder.svg"), 1)
        self.assert_refused("<!-- speed: three -->\n<!-- end -->\n", '"three" is not the number of a phase')


    def test_speeds_in_float32_have_those_in_16_bits_beside_them(self):
        def case(phase, text, sweeps, *measurements):
            return {"phase": phase, "unit": "TFLOP/s", "ceiling": "gemm_bf16", "sweeps": sweeps, "problem": {"text": text},
                    "measurements": [{"role": role, "name": name, "rate": rate, "right": True, "ratios": {}} for role, name, rate in measurements]}
        environment = {"device_name": "GPU", "driver": "1", "cuda": "2", "torch": "3", "cudnn": "4", "commit": "abc", "date": "2026-01-01"}
        self.write("docs/results/gpu/bench.json", json.dumps({"environment": environment, "teaching_machine": False, "cases": [
            case(1, "f32 N64", ["headline"], ("rung", "standard", 8.0)),
            case(3, "bf16 N64", ["dtype"], ("rung", "fa2", 26.0), ("peer", "flash", 302.0), ("peer", "math", 17.0), ("peer", "cuDNN", 481.0))]}))
        self.page.write_text("<!-- speed: 1 -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn("| 1 | standard | f32 N64 | 8 TFLOP/s | – | – |\n| – | PyTorch, flash | bf16 N64 | 302 TFLOP/s | – | – |\n"
                      "| – | PyTorch, cuDNN | bf16 N64 | 481 TFLOP/s |", self.page.read_text())
        self.assertNotIn("math", self.page.read_text())


class Wording(Book):
    def test_a_phrase_of_the_list(self):
        self.assert_refused("# Phase 0\n\nFetching is\ndear.\n", ':4: "dear": "expensive"')

    def test_a_phrase_over_the_end_of_a_line(self):
        self.assert_refused("# Phase 0\n\nIt has two barriers a\nstep.\n", ':3: "barriers a step"')

    def test_code_and_output_may_say_what_they_like(self):
        self.write("output", OUTPUT.replace("done: right", "done: right, and dear"))
        self.page.write_text("# Phase 0\n\n`dear`\n\n```\ndear\n```\n\n$dear$ [x](dear)\n\n<!-- output: show 3 | done: -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertEqual(self.refresh("--check").returncode, 0)

    def test_exercises_and_the_quiz_are_read(self):
        self.write("phase0_x/exercises/exercises.toml", EXERCISES.replace("The sum", "The dear sum"))
        self.write("phase0_x/rung/quiz.cpp", 'int dear;\nauto x = "say it with mended "\n         "sums, held "\n  "against it";\n')
        self.page.write_text("# Phase 0\n")
        result = self.refresh("--check")
        self.assertEqual(result.returncode, 1)
        for words in ('phase0_x/exercises/exercises.toml:3: "dear"', 'phase0_x/rung/quiz.cpp:2: "mended"', 'phase0_x/rung/quiz.cpp:3: "held against"'):
            self.assertIn(words, result.stderr)
        self.assertNotIn("quiz.cpp:1", result.stderr)


WATCHED = """void kernel() {
    watch_state(row, m,
                l);
    m = 1;
#pragma unroll
    for (int i = 0; i < 2; ++i) watch_score(row, i);
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            watch_score(i, j,
                        0);
    for (int i = 0; i < 2; ++i) {
        if (i) watch_sum(row, l);
        l = 2;
    }
    weigh(P, S,
          [&](int i, float s) { watch_score(i, s * scale); });
}
"""

UNWATCHED = """void kernel() {
    m = 1;
    for (int i = 0; i < 2; ++i) {
        l = 2;
    }
    weigh(P, S);
}
"""


class Quoting(Book):
    def test_what_a_trace_needs_is_not_quoted(self):
        self.write("phase0_x/kernel.cuh", WATCHED)
        self.page.write_text("# Phase 0\n\n<!-- code: kernel.cuh -->\n<!-- end -->\n")
        self.refreshed_page()
        self.assertIn(f"```cpp\n{UNWATCHED}```", self.page.read_text())

    def test_another_program_of_the_build_and_its_diagnosis(self):
        self.write("build/common/cli/ladder", LADDER)
        program = self.write("build/docs/smooth", "#!/bin/sh\necho a fault: the 3rd\necho '  " + "word " * 30 + "'\nexit 1\n")
        program.chmod(0o755)
        self.page.write_text("# Phase 0\n\n<!-- program: docs/smooth -->\n<!-- end -->\n")
        result = self.refresh("--program", self.root / "build/common/cli/ladder")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("```\na fault: the 3rd\n  " + " ".join(["word"] * 21) + "\n  " + " ".join(["word"] * 9) + "\n```", self.page.read_text())
        program.write_text("#!/bin/sh\nexit 2\n")
        result = self.refresh("--program", self.root / "build/common/cli/ladder")
        self.assertEqual(result.returncode, 1)
        self.assertIn("docs/smooth: exit code 2", result.stderr)


class Symbols(Book):
    def test_raw_symbols_become_formulas(self):
        self.page.write_text("# Phase 0: S_ij\n\nS_ij = Q_i K_j^T, `K_j`, O_i += P_ij V_j\n(B_r is 64) $m_i$, exp(LSE_p) in kernel_x.h "
                             "and K_j(2)\n\n```\nK_j\n```\n\n![Q_i](q.svg) <code>V_j</code>\n")
        self.assertEqual(self.refresh("--check").returncode, 1)
        self.refreshed_page()
        self.assertEqual(self.page.read_text(), "# Phase 0: S_ij\n\n$S_{ij} = Q_i K_j^T$, `K_j`, $O_i \\mathrel{+}= P_{ij} V_j$\n"
                         "($B_r$ is 64) $m_i$, exp($\\text{LSE}_p$) in kernel_x.h and K_j(2)\n\n```\nK_j\n```\n\n![Q_i](q.svg) <code>V_j</code>\n")
        self.assertEqual(self.refresh("--check").returncode, 0)

    def test_one_notation(self):
        self.assert_refused("# Phase 0\n\nSo it is. $\\square$\n", ":3: \"\\square\": a proof ends with ∎")
        self.assert_refused("# Phase 0\n\n$m + \\log l$\n", ":3: \"\\log\"")
        self.assert_refused("# Phase 0\n\n$\\hat O$\n", ":3: \"\\hat O\"")
        self.page.write_text("# Phase 0\n\n`log 2` and $\\log_2 e$ ∎\n")
        self.refreshed_page()


class Facts(unittest.TestCase):
    """The sentences of the real pages, with a ladder that prints other numbers."""

    def setUp(self):
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(pathlib.Path(SCRIPT).parent))
        import facts
        self.facts = facts

    def test_another_number_is_found(self):
        text = "\nA sum:\nthis sum takes five shuffles\nand {} additions\n"
        self.assertEqual(self.facts.problems("docs/primer.md", text.format("five"), None), [])
        self.assertEqual(self.facts.problems("docs/primer.md", text.format("four"), None),
                         ['3: "this sum takes five shuffles and four additions" is not so: it is five, five'])

    def test_so_is_a_sentence_that_is_gone(self):
        self.assertIn("0 sentences say", self.facts.problems("docs/primer.md", "nothing\n", None)[0])

    def test_every_page_of_a_fact_exists(self):
        root = pathlib.Path(SCRIPT).resolve().parents[2]
        self.assertEqual([fact.page for fact in self.facts.all_facts() if not (root / fact.page).is_file()], [])


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    unittest.main(argv=sys.argv[:1])
