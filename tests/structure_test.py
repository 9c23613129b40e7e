#!/usr/bin/env python3
"""Who may know whom: structure_test.py REPOSITORY reads every #include and holds it against the lists below.

Arrows point down and never back: between the folders of common/, and between those of common/simt. A new folder is named here with
what it may include. Besides, what no compiler says of a kernel.
"""
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

# Of common/: what each folder may include. Phases may include all but cli, and nobody but cli includes a phase.
COMMON = {
    "simt": set(),
    "torch": set(),
    "fixture": {"torch"},
    "records": set(),
    "plots": set(),
    "distributed": {"torch"},
    "attention": {"simt", "torch"},
    "reference": {"attention", "simt", "torch"},
    "fuzz": {"reference", "attention", "simt", "torch"},
    "classroom": {"reference", "attention", "simt", "torch"},
    "training": {"attention", "simt", "torch"},
    "rung": {"fuzz", "reference", "attention", "distributed", "fixture", "simt", "torch"},
    "cli": {"rung", "training", "fuzz", "reference", "attention", "distributed", "fixture", "records", "plots", "simt", "torch"},
}

# Of common/simt, from the ground up. First what both machines share, then the inside of the CPU machine, then the subjects: what a
# kernel names. An instruction's subject has its documentation, its GPU body and its CPU model.
SIMT = {
    "language": set(),                                            # CUDA's words, types and arithmetic
    "device": set(),                                              # profiles, features, occupancy
    "report": {"device"},                                         # faults, logs and traces
    "memory": {"language", "report"},                             # the shadows of shared and global memory
    "counters": {"memory", "report"},                             # sectors, wavefronts, moments of a trace
    "machine": {"language", "device", "report", "memory", "counters"},  # blocks: fibers, meetings
    "launch": {"language", "device", "report", "memory", "machine"},
    "views": {"language", "report", "memory", "machine"},
    "sync": {"device", "report", "memory", "counters", "machine", "views"},
    "copies": {"language", "device", "report", "memory", "counters", "machine", "sync", "views"},
    "matrix": {"language", "device", "report", "counters", "machine", "views"},
}

CODE = (".h", ".cpp", ".cuh", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def includes(root, folder):
    """(file, what it includes) of all code below a folder, as paths from the root."""
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in CODE:
            for target in INCLUDE.findall(path.read_text()):
                yield path.relative_to(root).as_posix(), target


def folder_in(path, parent):
    """"views" of "common/simt/views/views_cpu.h" in "common/simt"; nothing for what lies elsewhere, or in `parent` itself."""
    inner = re.fullmatch(re.escape(parent) + r"/([^/]+)/.*", path)
    return inner[1] if inner else None


def arrows_against(root, parent, allowed):
    """What breaks the list, in sentences."""
    for file, target in includes(root, parent):
        here, there = folder_in(file, parent), folder_in(target, parent)
        if here is None or here == there:
            continue
        if here not in allowed:
            yield f"{parent}/{here} is in no list: say in structure_test.py what it may include"
        elif there is not None and there not in allowed[here]:
            yield f"{file} includes {target}: {parent}/{here} may know {', '.join(sorted(allowed[here])) or 'nobody'}"
        elif there is None and target.startswith(parent + "/") and parent == "common/simt":
            yield f"{file} includes {target}, which gathers what lies below it"


def phases_that_are_known(root):
    """Includes of a phase by another one, or by what serves all of them; and of the program."""
    for file, target in [*includes(root, "common"), *(pair for phase in sorted(root.glob("phase*_*"))
                                                      for pair in includes(root, phase.name))]:
        own = file.split("/")[0]
        phase = re.match(r"phase\d+_\w+", target)
        if phase and phase[0] != own and not file.startswith("common/cli/"):
            yield f"{file} includes {target}: what two need lies in common/"
        if target.startswith("common/cli/") and not file.startswith("common/cli/"):
            yield f"{file} includes {target}: nobody knows the program"


def heavy_kernels(root):
    """Includes of torch or iostream by a kernel file."""
    for folder in ["common/simt", "common/attention", *(phase.name for phase in sorted(root.glob("phase*_*")))]:
        for file, target in includes(root, folder):
            if (file.endswith(".cuh") or folder == "common/simt") and re.match(r"(common/)?torch/|ATen/|c10/|iostream$", target):
                yield f"{file} includes {target}: kernels know neither torch nor iostream"


def all_of_torch(root):
    """Includes of libtorch's gathering headers: common/torch/torch.h has the few functions that are used."""
    for folder in ["common", "tests", *(phase.name for phase in sorted(root.glob("phase*_*")))]:
        for file, target in includes(root, folder):
            if target in ("torch/types.h", "torch/torch.h", "torch/extension.h", "ATen/ATen.h", "ATen/Functions.h"):
                yield f"{file} includes {target}, which takes seconds to compile: include common/torch/torch.h"


def loops_that_nvcc_may_take_for_more(root):
    """`if constexpr`, and an unrolled loop without braces: where the condition is false, nvcc 13.0 left out not the loop alone but the
    statement after it, without a word. (phase 8's mma_dkdv lost all but the last of its sums, on the GPU only.)"""
    for file in sorted([*root.glob("common/**/*.h"), *root.glob("**/*.cuh")]):
        lines = file.read_text().splitlines()
        for number, (line, following) in enumerate(zip(lines, lines[1:]), 1):
            if re.match(r"\s*((\} )?else )?if constexpr .*\)\s*(//.*)?$", line) and following.startswith("#pragma"):
                yield f"{file.relative_to(root)}:{number}: braces belong between `if constexpr` and the loop that #pragma speaks of"


class Lists(unittest.TestCase):
    def test_they_have_no_circle(self):
        for allowed in (COMMON, SIMT):
            known = set()
            for folder, may_know in allowed.items():
                self.assertLessEqual(may_know, known, f"{folder} knows one that stands after it")
                known.add(folder)


class Repository(unittest.TestCase):
    def test_folders_of_common(self):
        self.assertEqual(list(arrows_against(ROOT, "common", COMMON)), [])

    def test_folders_of_simt(self):
        self.assertEqual(list(arrows_against(ROOT, "common/simt", SIMT)), [])

    def test_folders_that_are_named_exist(self):
        self.assertEqual([folder for folder in SIMT if not (ROOT / "common/simt" / folder).is_dir()], [])

    def test_phases_are_known_to_the_program_alone(self):
        self.assertEqual(list(phases_that_are_known(ROOT)), [])

    def test_nobody_includes_all_of_torch(self):
        self.assertEqual(list(all_of_torch(ROOT)), [])

    def test_kernels_are_light(self):
        self.assertEqual(list(heavy_kernels(ROOT)), [])

    def test_nvcc_takes_loops_for_what_they_are(self):
        self.assertEqual(list(loops_that_nvcc_may_take_for_more(ROOT)), [])


class Checks(unittest.TestCase):
    """The checks themselves, on a small repository."""

    def complaints(self, files, check):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(check(root))

    def test_an_arrow_up_is_found(self):
        found = self.complaints({"common/simt/memory/shadow.cpp": '#include "common/simt/machine/block.h"\n'},
                                lambda root: arrows_against(root, "common/simt", SIMT))
        self.assertEqual(found, ["common/simt/memory/shadow.cpp includes common/simt/machine/block.h: common/simt/memory may know "
                                 "language, report"])

    def test_so_is_one_from_the_ground(self):
        found = self.complaints({"common/simt/views/tile.h": '#include "common/simt/simt.h"\n',
                                 "common/simt/device/device.h": '#include "common/attention/arguments.h"\n'},
                                lambda root: [*arrows_against(root, "common/simt", SIMT), *arrows_against(root, "common", COMMON)])
        self.assertEqual(len(found), 2, found)

    def test_a_new_folder_must_be_named(self):
        found = self.complaints({"common/simt/clusters/cluster.h": '#include "common/simt/machine/block.h"\n'},
                                lambda root: arrows_against(root, "common/simt", SIMT))
        self.assertIn("is in no list", found[0])

    def test_an_arrow_down_is_not(self):
        self.assertEqual(self.complaints({"common/simt/matrix/mma.h": '#include <array>\n#include "common/simt/views/tile.h"\n',
                                          "common/cli/tour.cpp": '#include "phase1_naive/naive.h"\n'},
                                         lambda root: [*arrows_against(root, "common/simt", SIMT), *phases_that_are_known(root)]), [])

    def test_phases_that_know_each_other(self):
        found = self.complaints({"phase2_fa1/fa1.cuh": '#include "phase1_naive/naive.cuh"\n#include "phase2_fa1/own.h"\n',
                                 "common/fuzz/draw.cpp": '#include "phase1_naive/naive.h"\n',
                                 "common/reference/oracle.cpp": '#include "common/cli/tour.h"\n'}, phases_that_are_known)
        self.assertEqual(len(found), 3, found)

    def test_a_heavy_kernel(self):
        found = self.complaints({"phase2_fa1/fa1.cuh": "#include <torch/types.h>\n", "phase2_fa1/fa1.cpp": "#include <torch/types.h>\n"},
                                heavy_kernels)
        self.assertEqual(len(found), 1, found)

    def test_a_loop_without_braces(self):
        loop = "#pragma unroll\n    for (int i = 0; i < N; ++i) x[i] = 0;\n"
        found = self.complaints({"phase2_fa1/fa1.cuh": "if constexpr (edge)\n" + loop, "phase2_fa1/fine.cuh": "if constexpr (edge) {\n" + loop + "}\n"},
                                loops_that_nvcc_may_take_for_more)
        self.assertEqual(len(found), 1, found)

    def test_all_of_torch(self):
        found = self.complaints({"tests/fixture_test.cpp": "#include <torch/torch.h>\n", "common/fuzz/draw.cpp": "#include <torch/library.h>\n"},
                                all_of_torch)
        self.assertEqual(len(found), 1, found)


if __name__ == "__main__":
    unittest.main()
