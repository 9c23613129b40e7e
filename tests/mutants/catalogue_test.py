"""The catalogue of wrong kernels fits the kernels, and each kind of mistake in it would be found. Compiles nothing."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import catalogue
import generate

ENTRY = {"name": "no_double", "title": "the factor forgotten", "misconception": "One is as good as two.",
         "why": "It is half of it.", "hint": "Count.", "file": "phase9_toy/toy.cuh", "find": "2 * x", "replace": "x",
         "caught_by": "reference"}

KERNEL = """#pragma once

#include "common/attention/shared.cuh"

namespace ladder::SIMT_MACHINE {

template <class T>
void helper(const T& a) {
}

inline int twice(int x) { return 2 * x; }

void launch_toy(const ToyArguments& a) {
    use(twice(a.x), shared());
}

}  // namespace ladder::SIMT_MACHINE
"""

SHARED = """#pragma once

namespace ladder::SIMT_MACHINE {
inline int shared() { return 1; }
}  // namespace ladder::SIMT_MACHINE
"""

FAULTS = "enum class Fault {\n    race,  ///< two threads\n    out_of_bounds,\n};\n"


def toml(entries, kernels=("toy",), extra=""):
    text = f"kernels = {list(kernels)}\n{extra}"
    for entry in entries:
        text += "\n[[mutant]]\n" + "".join(f"{key} = {value!r}\n" if isinstance(value, (str, int)) else ""
                                           for key, value in entry.items())
    return text


class Toy:
    """A repository with one phase."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for path, text in {"phase9_toy/toy.cuh": KERNEL, "common/attention/shared.cuh": SHARED,
                           "common/simt/report/machine_error.h": FAULTS,
                           "common/rung/phases.txt": "phase9_toy\n", "phase9_toy/rung/mutants.toml": toml([ENTRY])}.items():
            self.write(path, text)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def read(self):
        return catalogue.read(self.root)


class TheCatalogue(unittest.TestCase):
    def test_is_in_order(self):
        _, problems = catalogue.read()
        if problems:
            self.fail("the catalogue does not fit the kernels:\n" + "\n".join(problems))

    def test_has_every_phase_and_knows_the_machine(self):
        phases, _ = catalogue.read()
        with_host_code = [f for f in catalogue.phase_folders() if (catalogue.ROOT / f / catalogue.HOST_CATALOGUE).exists()]
        self.assertEqual([phase.folder for phase in phases],
                         [*catalogue.phase_folders(), catalogue.SHARED, *(f + catalogue.HOST for f in with_host_code)])
        self.assertIn("out_of_bounds", catalogue.faults())
        rooms = {}
        for phase in phases:
            room = phase.folder.removesuffix(catalogue.HOST)
            rooms[room] = rooms.get(room, 0) + len(phase.mutants)
        for room, mutants in rooms.items():
            self.assertGreaterEqual(mutants, 25 if room == catalogue.SHARED else 40, room)

    def test_each_phase_has_every_kind_of_mistake(self):
        phases, _ = catalogue.read()
        for phase in phases:
            if isinstance(phase, catalogue.HostCode):
                continue
            caught_by = {mutant.caught_by for mutant in phase.mutants}
            kernels = "".join((catalogue.ROOT / phase.folder / f"{kernel}.cuh").read_text() for kernel in phase.kernels)
            for check in ("out_of_bounds", "reference", *(("race", "uninitialised_read") if "SharedArena" in kernels else ("global_race",))):
                self.assertIn(check, caught_by, phase.folder)
            self.assertTrue(any(mutant.element != "f32" for mutant in phase.mutants), phase.folder)


class Mistakes(unittest.TestCase):
    def found(self, *changes, says, text=None, **of_toml):
        """The catalogue with one entry for each set of changes has exactly one mistake, described in these words."""
        with Toy() as toy:
            entries = [{**ENTRY, **change} for change in changes]
            toy.write("phase9_toy/rung/mutants.toml", text or toml(entries, **of_toml))
            _, problems = toy.read()
            self.assertEqual(len(problems), 1, problems)
            for words in ("phase9_toy/rung/mutants.toml", *says):
                self.assertIn(words, problems[0])

    def test_a_right_entry_has_none(self):
        with Toy() as toy:
            self.assertEqual(toy.read()[1], [])

    def test_unknown_keys(self):
        self.found({"tittle": "x"}, says=['"no_double"', '"tittle"', "misconception"])
        self.found({}, extra="author = 'me'\n", says=['"author"'])

    def test_missing_and_empty_texts(self):
        self.found({"hint": " "}, says=['"hint" is empty'])
        self.found({"why": None}, says=['"why" is missing'])

    def test_names(self):
        self.found({}, {"replace": "3 * x"}, says=["the name is taken"])
        self.found({"name": "not-a-name"}, says=["letters, digits and underscores"])
        self.found({"name": "original_2"}, says=["original"])

    def test_the_same_change_twice(self):
        self.found({}, {"name": "again"}, says=['the same change as "no_double"'])

    def test_unknown_checks_and_elements(self):
        self.found({"caught_by": "luck"}, says=['"luck"', "reference, launch, race, out_of_bounds"])
        self.found({"element": "f8"}, says=['"f8"', "f32, f16, bf16"])

    def test_unknown_head_dimensions_and_kernels(self):
        self.found({"mma_head_dim": 48}, says=["mma_head_dim is 48", "32, 64"])
        self.found({"tile_head_dim": 64}, says=["tile_head_dim is 64", "32, 128, 256"])
        self.found({"kernel": "toys"}, says=["kernel is 'toys'", "the phase has toy"])

    def test_files(self):
        self.found({"file": "phase9_toy/toys.cuh"}, says=['"phase9_toy/toys.cuh"', "common/attention/shared.cuh"])
        self.found({}, kernels=["toys"], says=["toys", "there is no"])

    def test_a_text_that_does_not_match(self):
        self.found({"find": "4 * x"}, says=["occurs 0 times in phase9_toy/toy.cuh, not 1", "4 * x", "did the kernel change?"])
        self.found({"times": 2}, says=["occurs 1 times", "not 2"])
        self.found({"times": 0}, says=['"times" is 0'])

    def test_a_change_that_changes_nothing(self):
        self.found({"replace": "2 * x"}, says=["the same"])

    def test_what_is_not_toml(self):
        self.found(text="kernels = [", says=["not TOML"])

    def test_a_kernel_edit_leaves_the_programs_as_they_are(self):
        with Toy() as toy:
            toy.write("phase9_toy/toy.cuh", KERNEL.replace("2 * x", "x + x"))
            phases, problems = toy.read()
            self.assertEqual(len(problems), 1)
            self.assertEqual(list(phases[0].programs()), ["mutants_phase9_toy_1"])

    def test_a_phase_without_a_catalogue(self):
        with Toy() as toy:
            toy.write("common/rung/phases.txt", "phase8_new\nphase9_toy\n")
            self.assertIn("phase8_new/rung/mutants.toml: there is none", toy.read()[1][0])


HOST = {**ENTRY, "name": "no_check", "file": "common/attention/check.cpp", "find": "x > 0", "replace": "x >= 0"}
IN_HEADER = {**ENTRY, "name": "none", "file": "common/attention/shared.cuh", "find": "return 1;", "replace": "return 0;"}


class SharedCode(unittest.TestCase):
    def chapter(self, *entries):
        """What the chapter of shared code becomes in a repository with one phase."""
        with Toy() as toy:
            toy.write("common/attention/check.cpp", "bool check(int x) { return x > 0; }\n")
            toy.write(catalogue.SHARED_CATALOGUE, "".join(toml([entry]).partition("\n")[2] for entry in entries))
            phases, problems = toy.read()
            return phases, problems, generate.Source(toy.root)

    def test_host_code_is_a_program_each_and_one_without_a_change(self):
        with Toy() as toy:
            toy.write("common/attention/check.cpp", "bool check(int x) { return x > 0; }\n")
            toy.write(catalogue.SHARED_CATALOGUE, toml([HOST]).partition("\n")[2])
            (_, host), problems = toy.read()
            self.assertEqual(problems, [])
            self.assertEqual(list(host.programs()), ["mutants_attention_original", "mutants_attention_no_check"])
            source = generate.Source(toy.root)
            text = source.host_program(host.mutants)
            self.assertIn("bool check(int x) { return x >= 0; }", text)
            self.assertIn(f'#line 1 "{toy.root}/common/attention/check.cpp"', text)
            self.assertIn('{"no_check", simt::ElementType::f32}', text)
            self.assertIn('{"original_f32", simt::ElementType::f32}', source.host_program([]))

    def test_a_change_in_a_header_joins_a_phase(self):
        phases, problems, _ = self.chapter({**IN_HEADER, "phase": "phase9_toy"})
        self.assertEqual(problems, [])
        self.assertEqual([m.name for m in phases[0].mutants], ["no_double", "none"])
        self.assertEqual(phases[1].mutants, [])

    def test_mistakes(self):
        for entry, says in ((IN_HEADER, "common/attention/check.cpp"),
                            ({**HOST, "phase": "phase9_toy"}, "files of this phase's kernels"),
                            ({**IN_HEADER, "phase": "phase7_none"}, "files of this phase's kernels"),
                            ({**HOST, "find": "x < 0"}, "occurs 0 times"),
                            ({**IN_HEADER, "phase": "phase9_toy", "name": "no_double"}, "phase9_toy has one of that name")):
            _, problems, _ = self.chapter(entry)
            self.assertEqual(len(problems), 1, problems)
            for words in (catalogue.SHARED_CATALOGUE, says):
                self.assertIn(words, problems[0])


class Parts(unittest.TestCase):
    def test_together_they_are_the_whole(self):
        phases, _ = catalogue.read()
        whole = catalogue.select(phases, [], None)
        for n in (1, 3, len(whole)):
            parts = [catalogue.select(phases, [], (k, n)) for k in range(1, n + 1)]
            self.assertEqual(sorted(name for p in parts for name in p), sorted(whole))
            self.assertTrue(all(parts))

    def test_of_some_phases(self):
        phases, _ = catalogue.read()
        for folder in catalogue.phase_folders():
            chosen = catalogue.select(phases, [folder], None).values()
            self.assertLessEqual({m.phase for mutants in chosen for m in mutants}, {folder, folder + catalogue.HOST})
            self.assertIn(folder, {m.phase for mutants in chosen for m in mutants})

    def test_more_parts_than_programs(self):
        with Toy() as toy, self.assertRaisesRegex(catalogue.CatalogueError, "1/1 to 1/1 are accepted"):
            catalogue.select(toy.read()[0], [], (1, 2))

    def test_bad_parts_are_refused(self):
        for bad in ("0/3", "4/3", "1", "1/0", "a/b"):
            said = subprocess.run([sys.executable, catalogue.__file__, "programs", "--part", bad], capture_output=True, text=True)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(bad, said.stderr)


class Generated(unittest.TestCase):
    def test_one_change_in_a_namespace_of_its_own(self):
        with Toy() as toy:
            phases, _ = toy.read()
            text = generate.Source(toy.root).program(phases[0], phases[0].mutants)
            self.assertIn("namespace ladder::mutants::no_double {", text)
            self.assertIn("return x; }", text)
            self.assertNotIn("2 * x", text)
            self.assertIn(f'#line 1 "{toy.root}/phase9_toy/toy.cuh"', text)
            self.assertIn("{\"no_double\", simt::ElementType::f32}", text)

    def test_only_functions_for_the_host_are_switched(self):
        with Toy() as toy:
            self.assertEqual(generate.Source(toy.root).entries("phase9_toy", "toy"),
                             [("void", "launch_toy", ("const ToyArguments& a",))])

    def test_a_function_for_the_host_with_more_parameters(self):
        with Toy() as toy:
            toy.write("phase9_toy/toy.cuh", KERNEL + "\nstd::uint64_t toy_bytes(const ToyArguments& a, std::int64_t rows) {\n")
            phases, _ = toy.read()
            text = generate.Source(toy.root).program(phases[0], phases[0].mutants)
            self.assertIn("std::uint64_t toy_bytes(const ToyArguments& a, std::int64_t rows) {", text)
            self.assertIn("constexpr std::uint64_t (*versions[])(const ToyArguments&, std::int64_t) = {", text)
            self.assertIn("return versions[mutants::active](a, rows);", text)

    def test_all_that_host_code_calls_is_switched(self):
        """What the host code of a phase declares as compiled for the CPU machine, its mutants are linked with."""
        source, phases = generate.Source(), catalogue.read()[0]
        for phase in (p for p in phases if isinstance(p, catalogue.Phase)):
            offered = {name for kernel in phase.kernels for _, name, _ in source.entries(phase.folder, kernel)}
            for file in sorted((catalogue.ROOT / phase.folder).rglob("*.cpp")):
                if "exercises" in file.parts:
                    continue
                for block in re.findall(r"\nnamespace cpu \{\n(.*?)\n\}", file.read_text(), re.S):
                    declared = set(re.findall(r"^[\w:]+ (\w+)\(", block, re.M))
                    self.assertLessEqual(declared, offered, file)

    def test_a_change_in_a_shared_header(self):
        with Toy() as toy:
            toy.write("phase9_toy/rung/mutants.toml", toml([{**ENTRY, "file": "common/attention/shared.cuh",
                                                          "find": "return 1;", "replace": "return 0;"}]))
            phases, problems = toy.read()
            self.assertEqual(problems, [])
            text = generate.Source(toy.root).program(phases[0], phases[0].mutants)
            self.assertIn("return 0;", text)
            self.assertIn("return 2 * x;", text)
            self.assertIn("mutants::no_double::launch_toy", text)

    def test_a_change_for_one_of_two_kernels(self):
        with Toy() as toy:
            toy.write("phase9_toy/other.cuh", KERNEL.replace("launch_toy", "launch_other"))
            toy.write("phase9_toy/rung/mutants.toml",
                      toml([{**ENTRY, "file": "common/attention/shared.cuh", "find": "return 1;", "replace": "return 0;",
                             "element": "f16", "kernel": "other"}], kernels=("toy", "other")))
            phases, problems = toy.read()
            self.assertEqual(problems, [])
            text = generate.Source(toy.root).program(phases[0], phases[0].mutants)
            self.assertIn("mutants::no_double::launch_other", text)
            self.assertNotIn("mutants::no_double::launch_toy", text)
            self.assertIn("mutants::original_f16::launch_toy", text)
            self.assertEqual(phases[0].elements(), ["f16"])


if __name__ == "__main__":
    unittest.main()
