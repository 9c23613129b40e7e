"""The classroom's parts that need no kernel: marks, budgets, what a file may contain, sealed parts, the exercises' own files."""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common/classroom"), str(ROOT / "tests")]

import addresses  # noqa: E402
import budgets  # noqa: E402
import exercises  # noqa: E402
import floors  # noqa: E402
import grade  # noqa: E402
import leaks  # noqa: E402
import limits  # noqa: E402
import marks  # noqa: E402
import policy  # noqa: E402
import sealed  # noqa: E402
import share  # noqa: E402
import student_copy  # noqa: E402
import submission  # noqa: E402
import terminal  # noqa: E402
import workbench  # noqa: E402

MARKED = """before
    // BEGIN SOLUTION a: the first part
    secret one
    //= placeholder;
    // END SOLUTION a
between
    // BEGIN SOLUTION b: another
    secret two
    // END SOLUTION b
    // BEGIN SOLUTION a: its second part
    secret three
    // END SOLUTION a
after
"""


class Marks(unittest.TestCase):
    def test_solution_has_no_marks(self):
        self.assertEqual(marks.solution(MARKED), "before\n    secret one\nbetween\n    secret two\n    secret three\nafter\n")

    def test_starting_point_lacks_what_is_removed_and_keeps_the_rest(self):
        self.assertEqual(marks.starting_point(MARKED, ["a"]),
                         "before\n    // YOUR CODE: the first part\n    placeholder;\n    // END OF YOUR CODE\nbetween\n    secret two\n"
                         "    // YOUR CODE: its second part\n    // END OF YOUR CODE\nafter\n")

    def test_names(self):
        self.assertEqual(marks.names(MARKED), ["a", "b"])

    def test_what_is_hidden_leaves_no_mark(self):
        without = marks.without(MARKED, ["a"])
        self.assertEqual(without, "before\n    // Left out here, and not needed: the first part\n    placeholder;\nbetween\n"
                                  "    // BEGIN SOLUTION b: another\n    secret two\n    // END SOLUTION b\n"
                                  "    // Left out here, and not needed: its second part\nafter\n")
        self.assertEqual(marks.names(without), ["b"])
        self.assertEqual(marks.without(MARKED, []), MARKED)

    def test_mistakes_are_named(self):
        for text, said in ((MARKED.replace("    // END SOLUTION b\n", ""), "inside b"),
                           ("// BEGIN SOLUTION a\n", "not a mark"), ("// BEGIN SOLUTION a: x\n", "does not end"),
                           ("// END SOLUTION a\n", "nothing has begun"), ("//= x\n", "not a mark")):
            with self.assertRaisesRegex(marks.MarkError, said):
                marks.solution(text)


class Budgets(unittest.TestCase):
    NAMES = {"read": {"K": 64, "V": 64}, "Sk": 100, "total_read": 128}

    def test_values(self):
        self.assertTrue(budgets.evaluate('read["K"] + read["V"] <= 128 and ceil_div(Sk, 64) == 2', self.NAMES))
        self.assertFalse(budgets.evaluate("total_read < 2 * 64", self.NAMES))
        self.assertEqual(budgets.sides("total_read <= 2 * Sk", self.NAMES), (128, 200))

    def test_units(self):
        for expression, unit in (('read["K"] + read["V"] <= 1', "bytes"), ("barriers <= 2 * blocks", "barriers"), ("shared_bytes <= N", "bytes"),
                                 ('sectors_read["K"] <= 1', "sectors of 32 bytes"), ("wavefronts <= 2", "wavefronts")):
            self.assertEqual(budgets.unit(expression), unit)
        with self.assertRaisesRegex(budgets.BudgetError, "counts none of"):
            budgets.unit("Sk <= 2")

    def test_nothing_else_is_understood(self):
        for expression in ("__import__('os')", "read.clear()", "(lambda: 1)()", "unknown", "1 +", "[1][0]"):
            with self.assertRaises(budgets.BudgetError):
                budgets.evaluate(expression, self.NAMES)


class Floors(unittest.TestCase):
    KNOWN = exercises.read()

    def missed(self, name, sizes, *launches):
        counted = {"barriers": 0, "blocks": 1, "shared_bytes": 0, "wavefronts": 1, "wavefronts_ideal": 1}
        traffic = [{**counted, "traffic": {tensor: {"read": read, "written": 0, "sectors_read": 0, "sectors_written": 0}
                                           for tensor, read in launch.items()}} for launch in launches]
        return floors.missed(exercises.find(self.KNOWN, name), {"trial": "B 1", "sizes": sizes, "launches": traffic})

    SIZES = {"B": 1, "Hq": 2, "Hkv": 1, "Sq": 128, "Sk": 64, "D": 32, "element": 4, "tile_keys": 128}
    ONCE = 2 * 128 * 32 * 4  # all of Q; and K, once for each tile of 64 queries

    def test_the_kernel_itself_passes(self):
        self.assertIsNone(self.missed("online_update", self.SIZES, {"Q": self.ONCE, "K": self.ONCE, "V": self.ONCE}))

    def test_tiles_may_be_twice_as_large(self):
        self.assertIsNone(self.missed("online_update", self.SIZES, {"Q": self.ONCE, "K": self.ONCE // 2, "V": self.ONCE // 2}))

    def test_what_was_not_read_did_not_count(self):
        for tensor in ("Q", "K", "V"):
            said = self.missed("online_update", self.SIZES, {"Q": self.ONCE, "K": self.ONCE, "V": self.ONCE, tensor: 0})
            self.assertRegex(said[0], f"^B 1: 0 bytes of {tensor} read through its views, where .* has at least [1-9]")

    def test_a_kernel_without_tiles(self):
        said = self.missed("online_update", self.SIZES, {"Q": self.ONCE, "K": 64 * self.ONCE, "V": self.ONCE})
        self.assertRegex(said[0], "bytes of K .* has at most")

    def test_launches(self):
        reads = {"Q": self.ONCE, "K": self.ONCE, "V": self.ONCE}
        for launches in ([], [reads, {}]):
            self.assertRegex(self.missed("online_update", self.SIZES, *launches)[0], f"^B 1: {len(launches)} launches .* has exactly 1$")

    def test_every_exercise_with_a_kernel_has_some(self):
        for exercise in self.KNOWN:
            numbers_only = exercise.suite["problem"] in ("stages", "splits", "zigzag", "striped", "ring_time")
            self.assertEqual(not floors.expressions(exercise), numbers_only, exercise.id)


class Policy(unittest.TestCase):
    """What is refused, tests/classroom/attacks has; here is what must not be."""

    HEADERS = '#include "common/attention/copy_tile.cuh"\n#include "phase9_toy/own.cuh"\n'
    START = HEADERS + "namespace ladder::SIMT_MACHINE {\nvoid launch_toy() { go(1); }\n}\n"

    def complaints(self, inside="", before="", start=START, **options):
        text = start.replace(self.HEADERS, self.HEADERS + before).replace("\n}\n", f"\n{inside}\n}}\n")
        return policy.complaints_about_text(text, self.START, "g++", **options)

    def test_ordinary_kernels_pass(self):
        self.assertEqual(self.complaints(
            "// asm, extern, #define and \\ in a comment\n/* # 1 \"x\" */ const char* s = \"asm // extern \\n\";\n"
            "constexpr int n = 1'000'000; constexpr float x = 1e-5f, y = .5f, z = 0x1p-3f; constexpr char quote = '\\'';\n"
            "#pragma unroll 4\n#pragma GCC unroll 4\nT(const T&) = delete;\nsimt::watch(float(tile(r, c)));\nnamespace {\nint i;\n}\n",
            "#pragma once\n#include <cmath>\n  #  include \"common/simt/simt.h\"  // why\n"), [])
        self.assertEqual(self.complaints("int Block_m, memory, address, cpus, gnus;"), [])

    def test_a_file_of_nothing_but_mistakes_is_soon_read(self):
        self.assertEqual(len(self.complaints("".join(f"int __shfl_{n};\n" for n in range(60_000)))), policy.MOST_COMPLAINTS)

    def test_brackets_are_nested_only_so_deep(self):
        self.assertEqual(self.complaints("int n = " + "(" * 90 + "1" + ")" * 90 + ";"), [])
        self.assertIn("nested more than 100 deep", self.complaints("int n = " + "({[" * 40 + "1" + "]})" * 40 + ";")[0])

    def test_lines_may_end_as_on_windows(self):
        self.assertEqual(policy.complaints_about_text(self.START.replace("\n", "\r\n"), self.START, "g++"), [])

    def test_complaints_name_lines(self):
        self.assertRegex(self.complaints(before="#include <fstream>\n")[0], "^line 3: .*fstream")
        self.assertRegex(self.complaints("\n" * 30 + "/*\n\n*/ asm();")[0], "^line 37: asm")

    def test_launches_stay_as_they_are(self):
        changed = self.START.replace("go(1)", "go(2)")
        self.assertRegex(self.complaints(start=changed)[0], "^line 4: launch_toy")
        self.assertEqual(self.complaints(start=changed, own_launch=True), [])
        self.assertEqual(self.complaints(start=self.START.replace("{ go(1); }", "{  // now\n  go( 1 ) ;\n}")), [])

    def test_files_that_were_opened(self):
        opened = policy.recorded_files("kernel.o: a.cpp /usr/include/c++/12/cmath \\\n b\\ c.h\n")
        self.assertEqual(opened, {"a.cpp", "/usr/include/c++/12/cmath", "b c.h"})
        self.assertEqual(policy.complaints_about_files(opened, opened), [])
        self.assertIn("b c.h", policy.complaints_about_files(opened, {"a.cpp", "/usr/include/c++/12/cmath"})[0])

    def complaints_about_object(self, source, runner=frozenset()):
        with tempfile.TemporaryDirectory() as folder:
            compiled = pathlib.Path(folder, "kernel.o")
            subprocess.run(["g++", "-std=c++20", "-x", "c++", "-c", "-", "-o", compiled], check=True, text=True, input=source)
            return policy.complaints_about_object(compiled, runner)

    def test_what_an_object_may_not_bring(self):
        for source, words in (
                ("void f() {}", "it defines f(), outside of namespace ladder"),
                ('extern "C" long write(int, const void*, unsigned long) { return 0; }', "it defines write, outside of namespace ladder"),
                ("namespace ladder { int n = 1; }", "the variable ladder::n outlives"),
                ("namespace ladder { int f() { thread_local int n = 0; return ++n; } }", "the variable ladder::f()::n outlives"),
                ("namespace ladder { [[gnu::constructor]] void f() {} }", "before the program begins"),
                ("namespace ladder { [[gnu::destructor]] void f() {} }", "before the program begins"),
                ('namespace ladder { [[gnu::section(".mine")]] void f() {} }', "it has a section .mine"),
                ("namespace ladder { using F = void(); [[gnu::ifunc(\"g\")]] void f(); extern \"C\" F* g() { return nullptr; } }", "has no use"),
                ('namespace ladder { void g() {} void f() __attribute__((alias("_ZN6ladder1gEv"))); asm(".globl x; x = 4"); }', "it defines x")):
            self.assertIn(words, "\n".join(self.complaints_about_object(source)), source)

    def test_what_is_the_machines(self):
        source = "namespace simt { [[gnu::weak]] void record() {} } namespace ladder { void f() { simt::record(); } }"
        self.assertEqual(self.complaints_about_object(source), [])
        self.assertEqual(self.complaints_about_object(source, {"_ZN4simt6recordEv"}), ["it defines simt::record(), which is the machine's"])

    def test_stack_protectors_of_every_processor_pass(self):
        # x86-64 calls the first and keeps its value in the thread; 64-bit Arm reads the second. Ubuntu's compilers add both unasked.
        source = ('extern "C" { void __stack_chk_fail(); extern long __stack_chk_guard; int system(const char*); }\n'
                  "namespace ladder { void f() { if (__stack_chk_guard) __stack_chk_fail(); system(nullptr); } }\n")
        self.assertEqual(self.complaints_about_object(source), ["it calls system, for which a kernel has no use"])

    def test_templates_are_known_by_their_names(self):
        source = ("namespace simt { template <class T> void multiply(T); template <class T> void set_cpu_device(T); }\n"
                  "template <class T> void open_file(T);\n"
                  "namespace ladder { void f() { simt::multiply(1); simt::set_cpu_device(1); open_file(1); } }\n")
        self.assertEqual(self.complaints_about_object(source),
                         ["it calls open_file<int>(int), for which a kernel has no use",
                          "it calls simt::set_cpu_device<int>(int), for which a kernel has no use"])


ERRORS = """In file included from entry.cpp:1:
work/kernel.cuh: In instantiation of 'void kernel() [with T = float]':
work/kernel.cuh:9:1:   required from 'void launch()'
work/kernel.cuh:7:5: error: 'x' was not declared in this scope
    7 |     x = 1;
      |     ^
work/kernel.cuh: In instantiation of 'void kernel() [with T = half]':
work/kernel.cuh:7:5: error: 'x' was not declared in this scope
    7 |     x = 1;
      |     ^
"""
ERRORS_ELSEWHERE = f"""{ROOT}/common/attention/row_tile.cuh: In instantiation of 'struct RowOwner<40, 128>':
work/kernel.cuh:8:20:   required from 'void kernel() [with T = float]'
{ROOT}/common/attention/row_tile.cuh:30:24: error: static assertion failed: B_r must fill every warp's lanes
   30 |     static_assert(rows >= 1, "B_r must fill every warp's lanes");
      |                   ~~~~~^~~~
"""


class Addresses(unittest.TestCase):
    """What functions may do; what they may not is in attacks/addresses.toml."""

    FINE = '''
        #include <algorithm>
        #include <array>
        #include <cmath>
        #include <cstdio>
        #include <stdexcept>
        #include <string>
        namespace ladder {
        struct State {
            float m = 0, l = 1;
            float both() const { return m + l; }
            State& itself() { return *this; }
        };
        struct Pair : State { State other[2]; };
        float sums(const std::array<float, 4>& x, float (&y)[3][2]) {
            float sum = 0, own[4] = {};
            for (float each : x) sum += each;
            for (auto& row : y)
                for (float each : row) sum += each;
            for (const float factor : {1.0f, 2.0f}) sum *= factor;
            for (int n = 0; n < 4; ++n) own[n] = x[n] + x.size();
            std::swap(own[0], own[1]);
            return std::max(sum, own[2]);
        }
        float& one_of(float& a, float (&b)[3], int n) { return n > 2 ? a : b[n]; }
        const State& as_state(const Pair& pair) { return pair; }
        float states(int n) {
            State many[3], copy = many[1];
            Pair pair;
            pair.other[n] = copy;
            const auto add = [&](auto& state) { return state.both() + as_state(pair).both(); };
            const auto twice = [&](int k) { return add(many[k]) + add(copy.itself()); };
            return twice(n);
        }
        template <class Use>
        decltype(auto) with(int n, Use&& use) { return use(n); }
        int used(int n) { return with(n, [&](int k) { return k + n; }); }
        void thrown(int n) {
            if (n < 0) throw std::invalid_argument(std::string("n is ") + std::to_string(n) + ", and 0 is the least");
            std::printf("%d %s\\n", n, n ? "some" : "none");
        }
        }
    '''

    def said_of(self, text):
        with tempfile.TemporaryDirectory() as folder:
            file, record = pathlib.Path(folder) / "kernel.cpp", pathlib.Path(folder) / "record"
            file.write_text(text)
            subprocess.run(["g++", "-std=c++20", "-Og", "-w", "-fsyntax-only", "-fsanitize=bounds-strict", f"-fdump-tree-original-raw={record}", file],
                           check=True)
            return addresses.complaints(record.read_bytes(), file.name)

    def test_what_kernels_do(self):
        self.assertEqual(self.said_of(self.FINE), [])

    def test_each_function_is_looked_at(self):
        said = self.said_of(self.FINE + "namespace ladder { void f() { *(int*)5 = 1; }\nstruct S { S() : x((long)this) {} long x; } s;\n"
                                        "auto g = [](int& x) { return (long)&x; }; }")
        self.assertEqual(len({words.partition(":")[0] for words in said}), 3, said)

    def test_a_record_of_another_file(self):
        with self.assertRaisesRegex(limits.Starved, "no function of it"):  # which is nobody's fault
            self.said_of("#line 1 \"another.cuh\"\nint f() { return 1; }")


class CompilerErrors(unittest.TestCase):
    def test_each_is_said_once(self):
        self.assertEqual(workbench.learners_lines(ERRORS, "work/kernel.cuh"),
                         ["line 7: 'x' was not declared in this scope", "      7 |     x = 1;", "        |     ^"])

    def test_an_error_elsewhere_names_the_line_that_leads_there(self):
        self.assertEqual(workbench.learners_lines(ERRORS_ELSEWHERE, "work/kernel.cuh"),
                         ["line 8 leads to an error at common/attention/row_tile.cuh:30: static assertion failed: B_r must fill every warp's lanes"])

    def test_what_is_not_understood_is_shown_as_it_is(self):
        self.assertEqual(workbench.learners_lines("cc1plus: out of memory\n", "work/kernel.cuh"), ["cc1plus: out of memory"])

    def why(self, ended, the_start_compiles):
        with unittest.mock.patch.object(workbench, "_starting_point_compiles", return_value=the_start_compiles):
            return workbench._why_it_does_not_compile(None, ended, "work/kernel.cuh", "place")

    def test_what_the_compiler_breaks_down_over_is_the_files_if_the_starting_point_compiles(self):
        for words, means in (("cc1plus: out of memory allocating 65536 bytes", "3 GB of memory"),
                             ("g++: internal compiler error: Segmentation fault signal terminated program cc1plus", "its stack")):
            ended = limits.Ended(1, "", words)
            stage, [line] = self.why(ended, True)
            self.assertEqual(stage, "not compiled")
            self.assertIn(f"the compiler ran out of {means}", line)
            self.assertEqual(self.why(ended, False)[0], "not judged")

    def test_what_the_machine_ends_is_nobodys(self):
        self.assertEqual(self.why(limits.Ended(1, "", "g++: fatal error: Killed signal terminated program cc1plus", starved=True), True)[0],
                         "not judged")


class Sealed(unittest.TestCase):
    def test_opens_with_its_word_only(self):
        content = {"files": {"a.cuh": "__syncthreads();\n"}, "task": "…"}
        word = sealed.new_word()
        shut = sealed.seal(content, word)
        self.assertEqual(sealed.opened(shut, f" {word.upper()}\n"), content)
        self.assertNotIn("syncthreads", str(shut))
        with self.assertRaises(sealed.WrongWord):
            sealed.opened(shut, "babebibobo10")


class Exercises(unittest.TestCase):
    KNOWN = exercises.read()

    def test_every_phase_has_every_kind(self):
        for phase in exercises.phases():
            kinds = {e.kind for e in self.KNOWN if e.phase == phase}
            self.assertEqual(kinds, set(exercises.KINDS), phase)
        self.assertGreaterEqual(len(self.KNOWN), 24)

    def test_names_are_unique(self):
        names = [e.name for e in self.KNOWN]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_every_mark_belongs_to_an_exercise_and_the_other_way_round(self):
        used = {(e.file, name) for e in self.KNOWN for name in e.solution}
        marked = {(str(path.relative_to(ROOT)), name) for path in [*ROOT.glob("phase*/**/*"), *ROOT.glob("common/attention/*")]
                  if path.suffix in (".cuh", ".h", ".cpp") for name in marks.names(path.read_text())}
        self.assertEqual(used, marked)

    def test_chapters_say_the_minutes(self):
        for phase in sorted({e.phase for e in self.KNOWN}):
            said = re.search(r"\bExercises: (\d+) minutes\.", (ROOT / phase / "README.md").read_text())
            self.assertEqual(int(said[1]), sum(e.minutes for e in self.KNOWN if e.phase == phase), phase)

    def test_hints_and_tasks_are_not_the_solution(self):
        for e in self.KNOWN:
            lines = [line for line in e.starting_point().splitlines() if "YOUR CODE" in line]
            self.assertTrue(e.kind == "fix" or lines, e.id)

    def test_a_budget_is_understood(self):
        names = {name: 1 for name in "B Hq Hkv Sq Sk D element splits keys tile_keys tile_queries tiles_of_32 pages rows N P W blocks places tiles most".split()}
        for e in self.KNOWN:
            for budget in e.budgets:
                budgets.evaluate(budget.expression, {**budgets.counters_of([]), **names})
                self.assertTrue(budgets.unit(budget.expression))

    def test_a_file_does_not_show_what_a_later_exercise_asks_for(self):
        shown = leaks.give_away(self.KNOWN, lambda exercise: [exercise.starting_point()])
        later = [(e.id, other.id) for e, others in shown.items() for other in others if (other.phase, other.number) > (e.phase, e.number)]
        self.assertEqual(later, [])

    def test_starting_points_and_solutions_are_kernels(self):
        for e in self.KNOWN:
            for text in (e.starting_point(), e.solved()):
                self.assertEqual(policy.complaints_about_text(text, e.starting_point(), "g++", e.own_launch, tuple(e.given_files(text).items())), [],
                                 e.id)

    def test_mistakes_of_exercises_are_recognised(self):
        known = set(workbench.lookalikes())
        for phase in sorted({e.phase for e in self.KNOWN}):
            for mistake in exercises.exercise_mistakes(phase):
                self.assertIn(f"{phase}/exercises/{mistake['name']}", known)

    def test_what_the_judge_recognises_is_in_the_catalogue(self):
        for name in workbench.lookalikes():
            title, hint = exercises.known_mistake(name)
            self.assertTrue(title and hint)

    def test_finding_one(self):
        first = self.KNOWN[0]
        for word in (first.id, first.name, first.folder):
            self.assertIs(exercises.find(self.KNOWN, word), first)
        with self.assertRaisesRegex(exercises.ExerciseError, 'no exercise "9.9"'):
            exercises.find(self.KNOWN, "9.9")


class Limits(unittest.TestCase):
    def assert_ends(self, process):
        """It was sent to its end, and comes to it once it gets the processor."""
        program = pathlib.Path(f"/proc/{process}/stat")
        for _ in range(600):
            try:
                if program.read_text().split()[2] in "ZX":  # nobody may have asked yet how it ended
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)
        self.fail("it is still running")

    def test_what_is_late_is_ended_with_all_that_it_started(self):
        with unittest.mock.patch.object(limits, "PATIENCE", 600):  # other tests have the processor, too
            ended = limits.run(["sh", "-c", "sleep 1000 & echo $!; while :; do :; done"], 1)
        self.assertTrue(ended.late)
        self.assert_ends(ended.stdout.strip())

    def test_what_prints_without_end_is_ended(self):
        ended = limits.run(["yes"], 60, written=1 << 16)
        self.assertNotEqual(ended.code, 0)
        self.assertEqual(len(ended.stdout), 1 << 16)

    def test_memory_is_bounded(self):
        self.assertIn("MemoryError", limits.run([sys.executable, "-c", "bytearray(1 << 30)"], 60, memory=1 << 29).stderr)

    def test_any_bytes_are_readable(self):
        self.assertEqual(limits.run(["printf", r"\377\000x"], 60).stdout, "\ufffd\0x")


    def test_whom_the_machine_ends_is_not_late(self):
        ended = limits.run(["sh", "-c", "kill -KILL $$"], 60)
        self.assertEqual((ended.late, ended.starved), (False, True))

    def test_waiting_takes_no_time_of_the_processor(self):
        with unittest.mock.patch.object(limits, "PATIENCE", 1):
            ended = limits.run(["sleep", "1000"], 1)
        self.assertEqual((ended.late, ended.starved), (False, True))

    def test_programs_end_with_the_one_that_started_them(self):
        # A program of a minute, whose grader is killed after it has said that it began.
        code = f"import sys; sys.path.insert(0, {str(ROOT / 'common/classroom')!r}); import limits; limits.run(['sh', '-c', 'echo $$ > \"$0\"; exec sleep 60', sys.argv[1]], 60)"
        with tempfile.TemporaryDirectory() as folder:
            said = pathlib.Path(folder) / "begun"
            grader = subprocess.Popen([sys.executable, "-c", code, said])
            while not said.exists() or not said.read_text().strip():
                time.sleep(0.05)
            grader.kill()
            grader.wait()
            self.assert_ends(said.read_text().strip())


class Escaped(unittest.TestCase):
    def test_no_two_names_are_the_same(self):
        names = ["ada", "a\nda", "a\\nda", "a\udcff", "a\\xff", "a\xff", "a\x85", "a\udc85", "a\u2028"]
        self.assertEqual(len({terminal.escaped(name) for name in names}), len(names))
        self.assertTrue(all(terminal.escaped(name).isprintable() for name in names))
        self.assertEqual(terminal.escaped("a\udcffb\n"), "a\\xffb\\u000a")


class Plain(unittest.TestCase):
    def test_nothing_moves_the_cursor(self):
        self.assertEqual(terminal.plain(["a\033[2J\0\udcff\tü", "x\ny"]), ["a?[2J?? ü", "x", "y"])

    def test_lengths_are_bounded(self):
        self.assertEqual(terminal.plain(["x" * 9, "y", "z"], most=2, longest=3), ["xxx …", "y", "… and more lines: 1"])


class Points(unittest.TestCase):
    def verdict(self, kind, given, **passed):
        exercise = dataclasses.replace(exercises.find(exercises.read(), "softcap"), kind=kind, begins_with=given, budgets=[])
        worth = workbench._worth(exercise, list(passed))
        checks = [workbench.Check(title, worth[title], passed=passed[title], ran=True) for title in passed]
        return workbench.Verdict(exercise, pathlib.Path("kernel.cuh"), "judged", [], checks)

    def test_what_is_given_earns_nothing_and_the_others_share_its_points(self):
        verdict = self.verdict("extend", ["a", "b"], a=True, b=True, c=False, d=True, e=False)
        self.assertEqual([check.points for check in verdict.checks], [0, 0, 17, 17, 16])
        self.assertEqual((verdict.points, verdict.possible), (17, 50))

    def test_what_was_given_has_to_stay(self):
        verdict = self.verdict("build", ["a"], a=False, b=True)
        self.assertEqual((verdict.points, verdict.lost), (0, ["a"]))

    def test_a_mistake_is_there_or_it_is_not(self):
        self.assertEqual(self.verdict("fix", None, a=True, b=False).points, 0)
        self.assertEqual(self.verdict("fix", None, a=True, b=True).points, 20)


class Grading(unittest.TestCase):
    EXERCISE = exercises.find(exercises.read(), "softcap")

    def verdict(self, text, minutes=60):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / self.EXERCISE.folder / pathlib.Path(self.EXERCISE.file).name
            file.parent.mkdir()
            file.write_text(text)
            return grade.verdict_on(self.EXERCISE, folder, 7, grade.Clock(minutes))

    def test_a_submission_has_so_much_time(self):
        verdict = self.verdict("int x;", minutes=0)
        self.assertEqual((verdict.stage, verdict.points), ("not judged", 0))
        self.assertIn("have taken 0 minutes", verdict.report[0])

    def test_the_starting_point_is_known(self):
        verdict = self.verdict(self.EXERCISE.starting_point())
        self.assertEqual((verdict.stage, verdict.points), ("untouched", 0))

    def test_what_the_grader_cannot_do_costs_nobody_else_anything(self):
        with unittest.mock.patch.object(workbench, "judge", side_effect=RuntimeError("\033[2J\udcff")):
            verdict = self.verdict("int x;")
        self.assertEqual((verdict.stage, verdict.points), ("not judged", 0))
        data = grade.as_json([(self.EXERCISE, verdict)], 7, {self.EXERCISE.name: 60})
        self.assertEqual(data["exercises"][0]["report"], ["the grader could not judge it: RuntimeError: ?[2J?"])


class Ended(unittest.TestCase):
    def test_who_ends_a_grading_has_what_was_judged_until_then(self):
        exercise, heard = exercises.read()[0], []

        def text_of(folder, exercise):
            if folder == "ada":
                raise submission.Unreadable("a pipe")
            if folder == "ben":
                end(threading.get_ident())
            heard.append(limits._interrupted.wait(10))
            raise limits.Interrupted

        self.addCleanup(limits._interrupted.clear)
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))  # ignored where nobody types
        for to, end in (("whom the system chooses", lambda worker: threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()),
                        ("a worker", lambda worker: threading.Timer(0.1, signal.pthread_kill, [worker, signal.SIGINT]).start())):
            limits._interrupted.clear()
            with self.subTest(to), unittest.mock.patch.object(submission, "text_of", text_of):
                results, is_whole = grade.graded([exercise], ["ada", "ben", "eve"], 7, 60, terminal.Progress())
                self.assertFalse(is_whole)
                stages = [grade.as_json(one, 7, {exercise.name: 10})["exercises"][0]["stage"] for one in results]
                self.assertEqual(stages, ["refused", "not judged", "not judged"])
        self.assertTrue(all(heard))

    def test_data_are_written_though_nobody_reads_the_table(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "class/ada").mkdir(parents=True)
            said = argparse.ArgumentParser()
            grade.add_arguments(said)
            arguments = said.parse_args(["9.4", "--class", f"{folder}/class", "--seed", "7", "--json", f"{folder}/grades.json"])
            with unittest.mock.patch.object(grade, "table", side_effect=BrokenPipeError), unittest.mock.patch("builtins.print"):
                self.assertRaises(BrokenPipeError, grade.run, arguments)
            [ada] = json.loads((pathlib.Path(folder) / "grades.json").read_text())["students"]
            self.assertEqual(ada["exercises"][0]["stage"], "not handed in")


class Workflow(unittest.TestCase):
    def test_each_exercise_is_a_test_and_its_result_is_reported(self):
        known = exercises.read()
        with unittest.mock.patch.object(grade, "possible_points", return_value={exercise.name: 10 for exercise in known}):
            text = student_copy.workflow(known)
        graders, [runners] = re.findall(r"^      - id: (\w+)$", text, re.MULTILINE), re.findall(r"runners: (.*)", text)
        self.assertEqual(runners.split(","), graders)
        self.assertEqual([one.lower() for one in re.findall(r"(\w+)_RESULTS: ", text)], graders)
        self.assertEqual(re.findall(r"steps\.(\w+)\.outputs\.result", text), graders)
        self.assertEqual(re.findall(r"command: \./ladder grade ([\d.]+),", text), [exercise.id for exercise in known])
        for title in re.findall(r"test-name: (.*), command:", text):
            self.assertRegex(title, r'^"[^"\\]*"$')  # as YAML has it


class Share(unittest.TestCase):
    def shared(self, setting):
        with unittest.mock.patch.dict(os.environ, {"LADDER_TEST_ALL": setting}):
            return share.of("abcdefg")

    def test_every_one_is_in_one_part(self):
        self.assertEqual([self.shared("1/3"), self.shared("2/3"), self.shared("3/3")], [["a", "d", "g"], ["b", "e"], ["c", "f"]])

    def test_all_without_parts(self):
        self.assertEqual(self.shared("1"), list("abcdefg"))
        self.assertEqual(self.shared(""), list("abcdefg"))


if __name__ == "__main__":
    unittest.main()
