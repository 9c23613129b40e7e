"""Writes the source of one program of wrong kernels.

  python3 generate.py programs                  "<phase> <program>" for each program, and for each phase's original;
                                                "host <program> <trials> <file>" for host code, without a file for
                                                its original
  python3 generate.py source PROGRAM FILE       FILE and FILE.d, the files that it was made of

A mutant is the phase's kernels in one piece: every .cuh file that they include, with the one change, in a namespace of its
own. Only kernels that the change reaches are there; for the others, the original stands in. The phase's real host code
is linked with a switchboard, which passes each call on to the mutant that is active.

A mutant of host code is its file with the one change, which takes the place of the right one in a program of its own.
"""

import pathlib
import re
import sys

import catalogue

COMPILED_FOR = {"common/attention/compiled_for.cuh": "tests/mutants/compiled_for.cuh"}
ELEMENT_TYPES = {"f32": "float", "f16": "simt::f16", "bf16": "simt::bf16"}
NAMESPACE = "namespace ladder::SIMT_MACHINE {"


class Source:
    def __init__(self, root=catalogue.ROOT):
        self.root, self.read_from = root, set()

    def text(self, path):
        self.read_from.add(self.root / path)
        return (self.root / path).read_text()

    def kernels(self, phase, name, element, kernels, change=None):
        """The kernels in one piece, in namespace ladder::mutants::<name>. #line keeps diagnoses at the original lines."""
        parts = [f"namespace ladder::mutants::{name} {{",
                 f"using CompiledElement = {ELEMENT_TYPES[element]};",
                 f"inline constexpr int kCompiledTiledHeadDim = {change.tile_head_dim if change else 32};",
                 f"inline constexpr int kCompiledMmaHeadDim = {change.mma_head_dim if change else 32};",
                 f"inline constexpr int kCompiledWarpgroupHeadDim = {change.warpgroup_head_dim if change else 64};", "}"]
        done = set()

        def piece(path):
            if path in done:
                return
            done.add(path)
            actual = COMPILED_FOR.get(path, path)
            text = self.text(actual)
            if change and change.file == path:
                text = change.changed(text)
            parts.append(f'#line 1 "{self.root / actual}"')
            for number, line in enumerate(text.split("\n"), 1):
                if match := re.match(r'#include "([^"]+\.cuh)"', line):
                    piece(match[1])
                    parts.append(f'#line {number + 1} "{self.root / actual}"')
                else:
                    parts.append("" if line == "#pragma once" else
                                 line.replace(NAMESPACE, f"namespace ladder::mutants::{name} {{"))

        for kernel in kernels:
            piece(f"{phase}/{kernel}.cuh")
        return "\n".join(parts) + "\n"

    def entries(self, phase, kernel):
        """The functions that the kernel's file offers to the host code: (result, name, (its parameters with their types))."""
        found = re.findall(r"(?<!>)\n([\w:]+) (\w+)\((const \w+& \w+(?:, [\w:]+ \w+)*)\) \{", self.text(f"{phase}/{kernel}.cuh"))
        return [(result, name, tuple(parameters.split(", "))) for result, name, parameters in found]

    def head(self, phase):
        headers = sorted((self.root / phase).rglob("*_arguments.h"))
        lines = ['#include "common/attention/arguments.h"', '#include "common/simt/simt.h"', '#include "tests/mutants/mutants.h"',
                 *(f'#include "{path.relative_to(self.root).as_posix()}"' for path in headers)]
        return "\n".join(lines) + "\n"

    def original(self, phase):
        return self.head(phase.folder) + "".join(
            self.kernels(phase.folder, f"original_{element}", element, phase.kernels) for element in phase.elements())

    def program(self, phase, mutants):
        versions = [(f"original_{e}", e, []) for e in phase.elements()]
        parts = [self.head(phase.folder)]
        for m in mutants:
            reached = phase.reached(m, self.root)
            parts.append(self.kernels(phase.folder, m.name, m.element, reached, m))
            versions.append((m.name, m.element, reached))
        parts.append(f'#line 1 "{phase.folder}.switchboard"\n')
        for kernel in phase.kernels:
            for result, function, parameters in self.entries(phase.folder, kernel):
                types = ", ".join(parameter.rpartition(" ")[0] for parameter in parameters)
                passed = ", ".join(parameter.rpartition(" ")[2] for parameter in parameters)
                for element in phase.elements():
                    parts.append(f"namespace ladder::mutants::original_{element} {{ {result} {function}({types}); }}\n")
                names = [name if kernel in compiled else f"original_{element}" for name, element, compiled in versions]
                table = "".join(f"        mutants::{name}::{function},\n" for name in names)
                parts.append(f"namespace ladder::cpu {{\n{result} {function}({', '.join(parameters)}) {{\n"
                             f"    constexpr {result} (*versions[])({types}) = {{\n{table}    }};\n"
                             f"    return versions[mutants::active]({passed});\n}}\n}}\n")
        parts.append(self.names_of((name, element) for name, element, _ in versions))
        return "".join(parts)

    def host_program(self, mutants):
        """A file of host code with its change, if any, and its name."""
        parts = ['#include "tests/mutants/mutants.h"\n']
        for m in mutants:
            parts.append(f'#line 1 "{self.root / m.file}"\n{m.changed(self.text(m.file))}')
        parts.append(f'#line 1 "{catalogue.SHARED}.switchboard"\n')
        parts.append(self.names_of([(m.name, m.element) for m in mutants] or [("original_f32", "f32")]))
        return "".join(parts)

    def names_of(self, versions):
        """What tests/mutants/mutants.h declares: the names of a program's mutants, and those of the faults."""
        table = "".join(f'    {{"{name}", simt::ElementType::{element}}},\n' for name, element in versions)
        names = ", ".join(f'"{fault}"' for fault in catalogue.faults(self.root))
        self.read_from.add(self.root / "common/simt/report/machine_error.h")
        return ("namespace ladder::mutants {\nstd::size_t active = 0;\n"
                f"constexpr Mutant kMutants[] = {{\n{table}}};\n"
                f"constexpr const char* kFaults[] = {{{names}}};\n"
                "std::span<const Mutant> mutants() { return kMutants; }\n"
                "const char* identifier_of(simt::Fault fault) { return kFaults[int(fault)]; }\n"
                "}  // namespace ladder::mutants\n")


def original_of(phase):
    return f"mutants_{phase.folder}_original"


def write(program, file, phases):
    source = Source()
    for phase in phases:
        if isinstance(phase, catalogue.HostCode) and program in phase.programs():
            text = source.host_program(phase.programs()[program])
        elif program == original_of(phase):
            text = source.original(phase)
        elif program in phase.programs():
            text = source.program(phase, phase.programs()[program])
        else:
            continue
        break
    else:
        sys.exit(f"the catalogue has no program {program}")
    file = pathlib.Path(file)
    if not file.exists() or file.read_text() != text:  # what did not change is not compiled again
        file.write_text(text)
    needed = {*source.read_from, *(catalogue.ROOT / p.catalogue() for p in phases), pathlib.Path(__file__).resolve(),
              pathlib.Path(catalogue.__file__).resolve()}
    names = " ".join(str(path).replace(" ", "\\ ") for path in sorted(needed))
    file.with_name(file.name + ".d").write_text(f"{str(file).replace(' ', chr(92) + ' ')}: {names}\n")


def main(arguments):
    phases, _ = catalogue.read()
    if arguments == ["programs"]:
        for phase in phases:
            if isinstance(phase, catalogue.HostCode):
                for program, mutants in phase.programs().items():
                    print("host", program, phase.trials(), *(m.file for m in mutants))
                continue
            print(phase.folder, original_of(phase))
            for program in phase.programs():
                print(phase.folder, program)
    elif len(arguments) == 3 and arguments[0] == "source":
        write(arguments[1], arguments[2], phases)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except catalogue.CatalogueError as error:
        sys.exit(str(error))
