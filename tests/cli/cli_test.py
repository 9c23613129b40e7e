"""End-to-end tests of the ladder program and of the launcher's words.

  python3 cli_test.py PATH/ladder-program PATH/launcher
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, LAUNCHER = sys.argv[1:3]


def run(*arguments, program=None, **environment):
    return subprocess.run([program or PROGRAM, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LADDER_COMMIT": "abc123", **environment})


class Tour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "tour.json")
            cls.result = run("run", "--device", "cpu", "--json", file)
            with open(file) as stream:
                cls.report = json.load(stream)

    def test_every_kernel_is_right(self):
        self.assertEqual(self.result.returncode, 0, self.result.stderr)
        self.assertTrue(self.report["passed"])
        self.assertEqual({p["phase"] for p in self.report["phases"]}, set(range(6)))
        for p in self.report["phases"]:
            self.assertTrue(p["passed"], p["kernel"])
            self.assertLessEqual(p["max_abs_error"], p["bound"], p["kernel"])

    def test_json_has_what_was_promised(self):
        self.assertEqual(self.report["commit"], "abc123")
        self.assertEqual(self.report["device"], "cpu")
        self.assertEqual(self.report["profile"], "rtx4090")
        for p in self.report["phases"]:
            for key in ("phase", "kernel", "passed", "max_abs_error", "bound", "global_bytes_read",
                        "global_bytes_written", "shared_bytes_per_block", "blocks", "milliseconds"):
                self.assertIn(key, p)
            self.assertGreater(p["global_bytes_read"], 0)
            self.assertGreater(p["global_bytes_written"], 0)
            self.assertGreater(p["blocks"], 0)
            self.assertEqual(p["global_bytes_source"], "counted")

    def test_softmax_reads_three_times_and_twice(self):
        by_kernel = {p["kernel"]: p for p in self.report["phases"]}
        safe, online = by_kernel["safe_softmax"], by_kernel["online_softmax"]
        self.assertEqual(safe["global_bytes_read"], 3 * safe["global_bytes_written"])
        self.assertEqual(online["global_bytes_read"], 2 * online["global_bytes_written"])

    def test_output_is_plain_where_nobody_watches(self):
        self.assertNotIn("\033", self.result.stdout)
        self.assertIn("The ladder", self.result.stdout)
        self.assertRegex(self.result.stdout, r"All \d+ kernels are right\.")

    def test_one_phase_alone(self):
        result = run("run", "3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("fa2_forward", result.stdout)
        self.assertNotIn("fa1_forward", result.stdout)

    def test_profiles_change_the_limits(self):
        result = run("run", "1", "2", "--profile", "gtx1080")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("GTX 1080", result.stdout)
        self.assertIn("would not fit this device", result.stdout)


class Overflow(unittest.TestCase):
    def test_rtx5060ti_runs_128_and_not_256(self):
        result = run("overflow", "--profile", "rtx5060ti")
        self.assertEqual(result.returncode, 0, result.stderr)
        scheme_a = result.stdout.split("Scheme B")[0]
        self.assertRegex(scheme_a, r"(?m)^ +128 .* 98304 +fits")
        self.assertRegex(scheme_a, r"(?m)^ +256 .* does not fit")
        self.assertIn("101376", scheme_a)
        self.assertIn("cudaErrorInvalidValue", scheme_a)

    def test_dtype_head_dim_and_rows_count(self):
        result = run("overflow", "--profile", "a100", "--dtype", "f32", "--head-dim", "64", "--block-rows", "16")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("float32, head dimension 64, 16 query rows", result.stdout)
        self.assertIn("166912", result.stdout)


class Fuzz(unittest.TestCase):
    def fuzz(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "fuzz.json")
            result = run("fuzz", "--device", "cpu", "--json", file, *arguments)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            with open(file) as stream:
                return result.stdout, json.load(stream)

    def test_every_entry_gets_problems(self):
        text, report = self.fuzz("--seed", "7", "--problems", "120")
        self.assertEqual((report["commit"], report["device"], report["seed"]), ("abc123", "cpu", 7))
        self.assertEqual((report["problems"], report["failures"], report["findings"]), (120, 0, []))
        self.assertEqual({e["phase"] for e in report["entries"]}, set(range(6)))
        self.assertEqual(len(report["entries"]), 11)
        self.assertEqual(sum(e["problems"] + e["refused_too_large"] + e["refused_bad_calls"]
                             for e in report["entries"]), 120)
        for e in report["entries"]:
            self.assertRegex(text, rf"(?m)^ .* {e['entry']} +{e['problems']} ")
            self.assertLess(e["largest_share_of_bound"], 1)
        self.assertIn("seed 7", text)
        self.assertIn("no report", text)
        self.assertNotIn("\033", text)

    def test_one_problem_again(self):
        _, all_of_them = self.fuzz("--seed", "7", "--problems", "30")
        _, one = self.fuzz("--seed", "7", "--problem", "29")
        self.assertEqual(one["problems"], 1)
        last = one["entries"][0]
        self.assertIn(last["entry"], {e["entry"] for e in all_of_them["entries"]})

    def test_one_phase_alone(self):
        _, report = self.fuzz("5", "--seed", "1", "--problems", "10")
        self.assertEqual({e["entry"] for e in report["entries"]}, {"flash_decode"})

    def test_stops_in_time_and_names_its_seed(self):
        text, report = self.fuzz("--seconds", "1")
        self.assertLess(report["seconds"], 20)
        self.assertIn(f"seed {report['seed']}", text)


class Mistakes(unittest.TestCase):
    def refused(self, *arguments, says):
        result = run(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for words in says:
            self.assertIn(words, result.stdout + result.stderr)

    def test_unknown_profile_lists_the_known(self):
        self.refused("run", "--profile", "rtx9090", says=["rtx9090", "gtx1080", "b200"])

    def test_unknown_phase(self):
        self.refused("run", "7", says=["PHASE"])

    def test_unknown_option(self):
        self.refused("run", "--fast", says=["--fast"])

    def test_problem_without_a_seed(self):
        self.refused("fuzz", "--problem", "3", says=["--problem", "--seed"])

    def test_no_problems(self):
        self.refused("fuzz", "--problems", "0", says=["--problems"])

    def test_profile_on_a_gpu(self):
        self.refused("run", "--device", "cuda", "--profile", "a100", says=["--"])

    def test_json_into_nowhere(self):
        self.refused("run", "0", "--device", "cpu", "--json", "/nonexistent/folder/x.json",
                     says=["--json", "/nonexistent/folder/x.json"])

    def test_head_dim_out_of_range(self):
        self.refused("overflow", "--head-dim", "257", says=["--head-dim"])


class Launcher(unittest.TestCase):
    def test_help_names_every_command(self):
        result = run("--help", program=LAUNCHER)
        self.assertEqual(result.returncode, 0)
        for command in ("run", "test", "fuzz", "overflow", "doctor"):
            self.assertRegex(result.stdout, rf"(?m)^  \./ladder {command}")
        self.assertNotIn("\033", result.stdout)

    def test_unknown_command(self):
        result = run("climb", program=LAUNCHER)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("climb", result.stderr)

    def test_unknown_phase(self):
        result = run("test", "9", program=LAUNCHER)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('"9"', result.stderr)

    def test_doctor_finds_what_this_build_was_made_with(self):
        result = run("doctor", program=LAUNCHER)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotRegex(result.stdout, r"(?m)^  missing")
        self.assertTrue(re.search(r"libtorch +\d+\.\d+", result.stdout), result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
