"""Runs the kernels of planted.cpp, one at a time: the sanitizer must report what is wrong, at its line, and nothing else.

    sanitizers_test.py address|thread COMMAND…     COMMAND: the program, after what it must be run with
"""

import os
import pathlib
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(__file__).with_name("planted.cpp")

RIGHT = ["barriers", "votes", "own_element", "raw_array", "raw_matrix", "helper_array", "array_by_pointer", "dynamic_array", "global_array",
         "local_array", "reduction", "failed_block"]

# Kernel: what the report calls the mistake, and the marks of the lines that it must show.
WRONG = {
    "address": {
        "beyond_a_raw_array": ("index 64 out of bounds for type 'float [64]'", ["array"]),
        "beyond_a_row_of_a_raw_matrix": ("index 32 out of bounds for type 'float [32]'", ["matrix"]),
        "beyond_an_array_of_a_helper": ("index 64 out of bounds for type 'float [64]'", ["helper"]),
        "beyond_an_array_by_pointer": ("global-buffer-overflow", ["pointer"]),
        "beyond_the_dynamic_array": ("use-after-poison", ["dynamic"]),
        "beyond_a_global_array": ("heap-buffer-overflow", ["global"]),
        "beyond_a_local_array": ("stack-buffer-overflow", ["local"]),
    },
    "thread": {
        "no_barrier_before_the_read": ("data race", ["write", "read"]),
        "no_barrier_after_the_read": ("data race", ["write", "read"]),
        "syncwarp_across_warps": ("data race", ["write", "read"]),
        "shuffle_for_a_barrier": ("data race", ["write", "read"]),
    },
}


def line_of(mark):
    lines = [n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if line.endswith(f"// @{mark}")]
    assert len(lines) == 1, f"{len(lines)} lines of {SOURCE.name} end in // @{mark}"
    return lines[0]


def run(kernel):
    # A sanitizer's options from outside could silence it.
    quiet = {name: value for name, value in os.environ.items() if not name.endswith("SAN_OPTIONS")}
    done = subprocess.run([*command, kernel], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, env=quiet)
    return done.returncode, done.stdout


class Sanitizer(unittest.TestCase):
    def test_right_kernels_give_no_report(self):
        for kernel in RIGHT:
            with self.subTest(kernel):
                self.assertEqual(run(kernel), (0, "done\n"))

    def test_wrong_kernels_are_reported_at_their_lines(self):
        for kernel, (mistake, marks) in WRONG[sanitizer].items():
            with self.subTest(kernel):
                code, output = run(kernel)
                self.assertNotEqual(code, 0, output)
                self.assertIn(mistake, output)
                for mark in marks:
                    self.assertIn(f"{SOURCE.name}:{line_of(mark)}", output)

    def test_every_kernel_is_known(self):
        code, output = run("no such kernel")
        self.assertEqual(code, 2)
        kernels = output.split("one of:")[1].split()
        self.assertEqual(sorted(kernels), sorted(RIGHT + list(WRONG["address"]) + list(WRONG["thread"])))


if __name__ == "__main__":
    sanitizer, *command = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
