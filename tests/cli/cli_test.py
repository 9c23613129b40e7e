"""End-to-end tests of the ladder program and of the launcher's words.

  python3 cli_test.py PATH/ladder-program PATH/launcher
"""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM, LAUNCHER = sys.argv[1:3]
PHASES = set(range(len((pathlib.Path(__file__).parents[2] / "common/rung/phases.txt").read_text().split())))


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
        self.assertEqual({p["phase"] for p in self.report["phases"]}, PHASES)
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


class Profile(unittest.TestCase):
    def profile(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "profile.json")
            result = run("profile", *arguments, "--json", file)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(file) as stream:
                return result.stdout, json.load(stream)

    def test_json_has_what_was_promised(self):
        text, report = self.profile("--keys", "70", "--head-dim", "32", "--profile", "h200")
        self.assertEqual({p["phase"] for p in report["phases"]}, PHASES)
        self.assertEqual(report["commit"], "abc123")
        for p in report["phases"]:
            self.assertIsNone(p["refusal"])
            self.assertEqual(p["bytes_by_formula"], {"read": p["global_bytes_read"], "written": p["global_bytes_written"]}, p["kernel"])
            self.assertGreater(p["flops_per_byte"], 0)
            for launch in p["launches"]:
                element = "float" if p["dtype"] == "Float" else "f16"  # of kernels that take no float32
                if p["kernel"].startswith("tiled_"):
                    element = r"(float|\d)"  # kernels of large tiles are for float32 alone, and do not say it
                self.assertRegex(launch["instance"], rf"^{launch['kernel']}<{element}")
                self.assertGreater(launch["registers_per_thread"], 0, launch["instance"])
                self.assertIn("ptxas", launch["registers_source"])
                self.assertGreater(launch["occupancy"]["resident_blocks"], 0)
                self.assertIn(launch["occupancy"]["limiter"], ("threads", "blocks", "shared memory", "registers"))
                self.assertLessEqual(launch["shared_memory"]["wavefronts_without_conflicts"], launch["shared_memory"]["wavefronts"])
                self.assertLessEqual(launch["shared_memory"]["wavefronts_of_reads"], launch["shared_memory"]["wavefronts"])
                self.assertLessEqual(launch["shared_memory"]["wavefronts_of_products"], launch["shared_memory"]["wavefronts_of_reads"])
                for name, tensor in launch["global_memory"].items():
                    for way in ("read", "written"):
                        self.assertLessEqual(tensor[f"sectors_{way}_ideal"], tensor[f"sectors_{way}"], name)
                        self.assertLessEqual(tensor[f"requests_{way}"], tensor[f"sectors_{way}"], name)
                        self.assertEqual(tensor[f"bytes_{way}"] > 0, tensor[f"sectors_{way}"] > 0, name)
        self.assertIn("hopper_fp8_forward", {p["kernel"] for p in report["phases"]})  # which has no place in the tour
        self.assertNotIn("DIFFER", text)
        self.assertNotIn("\033", text)

    def test_numbers_worked_out_by_hand(self):
        text, report = self.profile("3", "--heads", "4", "--kv-heads", "2", "--keys", "256", "--head-dim", "64", "--dtype", "f16")
        (launch,) = report["phases"][0]["launches"]
        self.assertEqual(launch["instance"], "fa2_forward_kernel<f16, 64>")
        self.assertEqual(launch["grid"], [4, 4, 1])
        # Four blocks for each of four query heads read K of a head in full, 256 rows of 128 bytes, whole sectors of it.
        self.assertEqual(launch["global_memory"]["K"]["bytes_read"], 4 * 4 * 256 * 128)
        self.assertEqual(launch["global_memory"]["K"]["sectors_read"], 4 * 4 * 256 * 4)
        self.assertEqual(launch["global_memory"]["K"]["sectors_read_ideal"], 4 * 4 * 256 * 4)
        self.assertEqual(report["phases"][0]["flops"], 4 * 4 * 256 * 256 * 64)
        self.assertIn("K and V are read 8 times: once by each of the 4 blocks of 2 query heads.", " ".join(text.split()))

    def test_masks(self):
        flops = {}
        for mask in ("--causal", "--no-causal"):
            _, report = self.profile("4", "--keys", "64", "--head-dim", "32", mask)
            flops[mask] = report["phases"][0]["flops"]
        self.assertEqual(flops["--causal"] / flops["--no-causal"], (64 * 65 / 2) / 64**2)
        _, report = self.profile("4", "--keys", "64", "--head-dim", "32")
        self.assertEqual(report["phases"][0]["flops"], flops["--causal"], "phase 4 is about causal masks")

    def test_sweep_fits_the_slope_through_the_points(self):
        text, report = self.profile("2", "--sweep", "--lengths", "64,128,256", "--shared-kib", "8,16", "--head-dim", "32")
        by_length, by_memory = report["sweeps"]
        self.assertEqual([p["value"] for p in by_length["points"]], [64, 128, 256])
        self.assertEqual([p["value"] for p in by_memory["points"]], [8192, 16384])
        for sweep in (by_length, by_memory):
            for point in sweep["points"]:
                self.assertEqual(point["bytes"], point["bytes_by_formula"])
            x = [math.log(p["value"]) for p in sweep["points"]]
            y = [math.log(p["bytes"]) for p in sweep["points"]]
            mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
            slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)
            self.assertAlmostEqual(sweep["slope"], slope, places=9)
        self.assertEqual((by_length["predicted_slope"], by_memory["predicted_slope"]), (2, -1))
        self.assertLess(by_memory["slope"], -0.5)
        self.assertRegex(text, r"bytes grow as N\^\d\.\d\d .*predicted N\^2")

    def test_plot_is_a_figure(self):
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "it's new", "figures")
            result = run("profile", "3", "--plot", target, "--lengths", "64,128", "--head-dim", "32")
            written = {name: pathlib.Path(target, f"traffic_over_N.{name}").read_text() for name in ("gp", "dat")}
            self.assertIn("fa2_forward", written["gp"])
            self.assertRegex(written["dat"], r"(?m)^128 \d+ \d+$")
            if not shutil.which("gnuplot"):
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("gnuplot-nox", result.stderr)
                return
            self.assertEqual(result.returncode, 0, result.stderr)
            figure = xml.etree.ElementTree.parse(os.path.join(target, "traffic_over_N.svg")).getroot()
            self.assertTrue(figure.tag.endswith("svg"))
            self.assertIn("predicted 2", "".join(figure.itertext()))

    def test_a_kernel_that_does_not_fit_says_so(self):
        text, report = self.profile("1", "--keys", "1024", "--queries", "8")
        by_kernel = {p["kernel"]: p for p in report["phases"]}
        self.assertIn("shared memory", by_kernel["q_blocked_attention"]["refusal"])
        self.assertIn("did not run", text)
        self.assertIsNone(by_kernel["standard_attention"]["refusal"])

    def test_registers_nobody_recorded(self):
        text, report = self.profile("3", "--keys", "32", "--profile", "gtx1080")
        self.assertIsNone(report["phases"][0]["launches"][0]["registers_per_thread"])
        self.assertIn("unknown here", text)


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
        self.assertEqual({e["phase"] for e in report["entries"]}, PHASES)
        self.assertEqual(len(report["entries"]), 33)
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
        self.assertEqual({e["entry"] for e in report["entries"]}, {"flash_decode", "flash_decode_plain"})

    def test_one_entry_alone(self):
        _, report = self.fuzz("--entry", "flash_decode", "--entry", "fa2_forward", "--seed", "1", "--problems", "10")
        self.assertEqual({e["entry"] for e in report["entries"]}, {"flash_decode", "fa2_forward"})

    def test_stops_in_time_and_names_its_seed(self):
        text, report = self.fuzz("--seconds", "1")
        self.assertLess(report["seconds"], 20)
        self.assertIn(f"seed {report['seed']}", text)


class Ring(unittest.TestCase):
    SIZES = ("--device", "cpu", "--way", "ring", "--heads", "1", "--kv-heads", "1", "--head-dim", "8")

    @classmethod
    def setUpClass(cls):
        result = run("ring", "--ranks", "1", *cls.SIZES)
        if "without Gloo" in result.stderr:
            raise unittest.SkipTest("this build has no Gloo, and so no ranks with CPU machines")

    def ring(self, *arguments, file_option="--json"):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "ring.json")
            result = run("ring", *self.SIZES, *arguments, file_option, file)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(file) as stream:
                return result, json.load(stream)

    def started(self, *arguments):
        """A ring that goes on for ever, and its ranks: numbers and processes."""
        program = subprocess.Popen([PROGRAM, "ring", *self.SIZES, "--repeat", "1000000", *arguments],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks = {}
        while len(ranks) < 3:
            self.assertIsNone(program.poll(), "it ended")
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                    rank = re.search(r"(?:^|\0)RANK=(\d+)\0", (process / "environ").read_text())
                except OSError:  # it has just ended
                    continue
                if parent == program.pid and rank:
                    ranks[int(rank[1])] = int(process.name)
        return program, ranks

    def test_every_option_reaches_the_ranks_and_one_speaks(self):
        result, report = self.ring("--ranks", "3", "--tokens", "36", "--mask", "none", "--parts", "contiguous", "--dtype", "f16",
                                   "--no-overlap", "--backward")
        self.assertEqual(result.stdout.count("Attention over a cut sequence"), 1)
        self.assertEqual(result.stderr, "")
        for field, value in {"commit": "abc123", "ranks": 3, "q": [1, 1, 36, 8], "mask": "none", "parts": "contiguous", "dtype": "Half",
                             "overlap": False, "backward": True, "passed": True}.items():
            self.assertEqual(report[field], value, field)

    def test_a_killed_rank_is_named_once(self):
        program, ranks = self.started("--ranks", "3", "--patience", "5")
        os.kill(ranks[1], signal.SIGKILL)
        _, error = program.communicate(timeout=120)
        self.assertEqual(program.returncode, 2)
        self.assertEqual(error, "ladder: ring: rank 1 was killed by signal 9 (Killed)\n")

    def test_ranks_end_with_whoever_started_them(self):
        program, ranks = self.started("--ranks", "3")
        os.kill(ranks[1], signal.SIGSTOP)  # it notices nothing by itself
        program.kill()
        program.communicate(timeout=120)  # when the last rank has closed what it printed into

    def test_a_trace_has_what_each_rank_did_in_its_order(self):
        link = 100_000
        for overlap in (True, False):
            _, report = self.ring("--ranks", "3", "--tokens", "96", "--mask", "none", "--link", str(link),
                                  *([] if overlap else ["--no-overlap"]), file_option="--trace")
            (method,) = report["methods"]
            self.assertEqual(len(method["events"]), 3)
            self.assertEqual(min(begin for rank in method["events"] for _, begin, _ in rank), 0)
            for rank in method["events"]:
                own = [what for what, _, _ in rank if what in ("work", "wait")]
                self.assertEqual(own, ["work", "wait", "work", "wait", "work"] if overlap else ["wait", "work", "wait", "work", "work"])
                for what, times in (("send", 2), ("receive", 2), ("merge", 3)):
                    self.assertEqual(sum(event[0] == what for event in rank), times, what)
                for what, begin, end in rank:
                    self.assertLessEqual(begin, end)
                    if what in ("send", "receive"):
                        self.assertGreaterEqual(end - begin, 1e6 * 2 * 32 * 8 * 4 / link, "no message is faster than its link")

    def test_what_it_refuses(self):
        for arguments, words in ((["--heads", "3", "--kv-heads", "2"], "3 heads and 2"), (["--ranks", "0"], "--ranks"),
                                 (["--link", "0"], "--link"),
                                 (["--ranks", "2", *self.SIZES, "--trace", "/nonexistent/x.json"], "/nonexistent/x.json")):
            result = run("ring", *arguments)
            self.assertNotEqual(result.returncode, 0, arguments)
            self.assertIn(words, result.stderr + result.stdout)


class Mistakes(unittest.TestCase):
    def refused(self, *arguments, says):
        result = run(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for words in says:
            self.assertIn(words, result.stdout + result.stderr)

    def test_unknown_profile_lists_the_known(self):
        self.refused("run", "--profile", "rtx9090", says=["rtx9090", "gtx1080", "b200"])

    def test_unknown_phase(self):
        self.refused("run", "12", says=["PHASE"])

    def test_unknown_option(self):
        self.refused("run", "--fast", says=["--fast"])

    def test_problem_without_a_seed(self):
        self.refused("fuzz", "--problem", "3", says=["--problem", "--seed"])

    def test_no_problems(self):
        self.refused("fuzz", "--problems", "0", says=["--problems"])
        self.refused("fuzz", "--entry", "flash_attention", says=["--entry", "flash_attention", "flash_decode"])

    def test_profile_on_a_gpu(self):
        self.refused("run", "--device", "cuda", "--profile", "a100", says=["--"])

    def test_json_into_nowhere(self):
        self.refused("run", "0", "--device", "cpu", "--json", "/nonexistent/folder/x.json",
                     says=["--json", "/nonexistent/folder/x.json"])

    def test_profile_refuses_what_it_cannot_do(self):
        self.refused("profile", "--heads", "4", "--kv-heads", "3", says=["--kv-heads", "3", "4"])
        self.refused("profile", "--dtype", "f64", says=["--dtype"])
        self.refused("profile", "--keys", "0", says=["--keys"])
        self.refused("profile", "--head-dim", "257", says=["--head-dim"])
        self.refused("profile", "99", says=["PHASE"])
        self.refused("profile", "3", "--sweep", "--keys", "64", says=["--keys", "--lengths"])
        self.refused("profile", "3", "--lengths", "64,none", "--sweep", says=["--lengths"])
        self.refused("profile", "3", "--keys", "32", "--json", "/nonexistent/x.json", says=["--json", "/nonexistent/x.json"])
        self.refused("profile", "3", "--lengths", "32,64", "--plot", "/proc/nothing", says=["--plot", "/proc/nothing"])

    def test_head_dim_out_of_range(self):
        self.refused("overflow", "--head-dim", "257", says=["--head-dim"])


class Launcher(unittest.TestCase):
    def test_help_names_every_command(self):
        result = run("--help", program=LAUNCHER)
        self.assertEqual(result.returncode, 0)
        for command in ("run", "test", "mutants", "fuzz", "overflow", "bench", "profile", "trace", "train", "ring", "quiz", "docs", "doctor"):
            self.assertRegex(result.stdout, rf"(?m)^  \./ladder {command}")
        self.assertNotIn("\033", result.stdout)

    def test_unknown_command(self):
        result = run("climb", program=LAUNCHER)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("climb", result.stderr)

    def test_unknown_phase(self):
        result = run("test", "12", program=LAUNCHER)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('"12"', result.stderr)

    def test_a_part_of_the_wrong_kernels(self):
        for arguments, words in ((["--part", "1/2"], "--part without --all"), (["--all", "--part"], "needs a value"),
                                 (["--all", "--part", "3/2"], '"3/2"')):
            result = run("test", *arguments, program=LAUNCHER)
            self.assertNotEqual(result.returncode, 0, arguments)
            self.assertIn(words, result.stderr)

    def test_mutants_explains_itself(self):
        result = run("mutants", "--help", program=LAUNCHER)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in ("PHASE", "--part K/N", "--json FILE", "tests/mutants/README.md"):
            self.assertIn(words, result.stdout)

    def test_mutants_refuses_what_it_does_not_know(self):
        for arguments, words in ((["--parts", "1/2"], '"--parts"'), (["12"], '"12"'), (["--part"], "needs a value"),
                                 (["--part", "3/2"], '"3/2"'), (["--part", "1/999"], "1/999"),
                                 (["--json", "/nonexistent/folder/x.json"], "/nonexistent/folder/x.json")):
            result = run("mutants", *arguments, program=LAUNCHER)
            self.assertNotEqual(result.returncode, 0, arguments)
            self.assertIn(words, result.stderr)

    def test_docs_explains_itself_and_takes_nothing(self):
        result = run("docs", "--help", program=LAUNCHER)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("load nothing from a network", result.stdout)
        result = run("docs", "3", program=LAUNCHER)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('"3"', result.stderr)

    def test_doctor_finds_what_this_build_was_made_with(self):
        result = run("doctor", program=LAUNCHER)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertNotRegex(result.stdout, r"(?m)^  missing")
        self.assertTrue(re.search(r"libtorch +\d+\.\d+", result.stdout), result.stdout)

    def doctor_on(self, system, processor, bits):
        """What it says where these programs give such answers."""
        with tempfile.TemporaryDirectory() as folder:
            for program, answer in (("uname", f'[ "$1" = -s ] && echo {system} || echo {processor}'), ("getconf", f"echo {bits}")):
                file = pathlib.Path(folder, program)
                file.write_text(f"#!/bin/sh\n{answer}\n")
                file.chmod(0o755)
            return run("doctor", program=LAUNCHER, PATH=f"{folder}:{os.environ['PATH']}")

    def test_doctor_names_the_system(self):
        for processor, name in (("x86_64", "Linux, x86-64"), ("aarch64", "Linux, 64-bit Arm (aarch64)")):
            result = self.doctor_on("Linux", processor, 64)
            self.assertRegex(result.stdout, rf"(?m)^  ok +system +{re.escape(name)}$")
            self.assertEqual(result.returncode, 0, result.stdout)

    def test_doctor_says_where_nothing_can_be_built(self):
        for system, processor, bits in (("Linux", "aarch64", 32), ("Linux", "riscv64", 64), ("Darwin", "arm64", 64)):
            result = self.doctor_on(system, processor, bits)
            self.assertRegex(result.stdout, rf"(?m)^  missing +system +{system}, {processor}, {bits} bits; needed is Linux on x86-64")
            self.assertNotEqual(result.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
