"""End-to-end tests of ./ladder bench on the CPU machine, and of the README's table that is made from its file.

  python3 bench_test.py PATH/ladder-program PATH/repository
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM, REPOSITORY = sys.argv[1:3]
sys.path.insert(0, os.path.join(REPOSITORY, "common/pages"))
sys.path.insert(0, os.path.join(REPOSITORY, "common/figures"))
import palette  # noqa: E402
import speed_table  # noqa: E402

PLOTS = {"ladder.svg", "throughput.svg", "throughput_bf16.svg", "decode.svg", "roofline.svg"}


def bench(*arguments, **environment):
    return subprocess.run([PROGRAM, "bench", *arguments], capture_output=True, text=True, timeout=500,
                          env={**os.environ, "LADDER_COMMIT": "abc123", **environment})


class QuickRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.file = os.path.join(cls.folder.name, "bench.json")
        cls.result = bench("--quick", "--device", "cpu", "--json", cls.file)
        cls.report = json.loads(pathlib.Path(cls.file).read_text())

    def measurements(self, role=None):
        for case in self.report["cases"]:
            for m in case["measurements"]:
                if role is None or m["role"] == role:
                    yield case, m

    def test_every_kernel_is_measured_and_right(self):
        self.assertEqual(self.result.returncode, 0, self.result.stdout + self.result.stderr)
        rungs = {m["name"] for _, m in self.measurements("rung")}
        self.assertEqual(rungs, {"safe_softmax", "online_softmax", "block_plain_softmax", "block_softmax",
                                 "online_attention", "standard_attention", "q_blocked_attention",
                                 "qv_blocked_attention", "fa1_plain_forward", "fa1_forward", "fa2_plain_forward",
                                 "fa2_forward", "causal_plain_forward", "causal_forward", "flash_decode_plain",
                                 "flash_decode", "mma_plain_forward", "mma_forward", "hopper_plain_forward",
                                 "hopper_turns_forward", "hopper_overlapped_forward", "hopper_forward",
                                 "hopper_fp8_attention", "plain_backward", "plain_backward_atomics", "tiled_backward",
                                 "tiled_backward_atomics", "mma_backward", "mma_backward_atomics", "hopper_backward", "hopper_backward_atomics"})
        for case, m in self.measurements("rung"):
            where = f"{m['name']} on {case['problem']['text']}"
            self.assertNotIn("not_available", m, where)
            self.assertTrue(m["right"], where)
            self.assertLessEqual(m["max_abs_error"], m["bound"], where)
            self.assertGreater(m["milliseconds"]["median"], 0, where)
            self.assertGreaterEqual(m["milliseconds"]["samples"], 3, where)
            self.assertGreater(m["launches"][0]["blocks"], 0, where)
            self.assertGreater(m["moved_bytes"], 0, where)

    def test_says_where_and_when(self):
        e = self.report["environment"]
        self.assertEqual(e["commit"], "abc123")
        self.assertEqual(e["device"], "cpu")
        self.assertRegex(e["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(e["torch"], r"^\d+\.\d+")
        self.assertTrue(self.report["teaching_machine"])
        self.assertIn("teaching machine", self.result.stdout)

    def test_rates_shares_and_ratios_follow_from_medians(self):
        ceilings = {c["name"]: c["rate"] for c in self.report["ceilings"] if "rate" in c}
        self.assertIn("copy", ceilings)
        for case, m in self.measurements("rung"):
            amount, unit = (m["flops"], 1e12) if case["unit"] == "TFLOP/s" else (m["useful_bytes"], 1e9)
            rate = amount / (m["milliseconds"]["median"] * 1e-3) / unit
            self.assertAlmostEqual(m["rate"] / rate, 1, places=9)
            if case["ceiling"] in ceilings:
                self.assertAlmostEqual(m["share_of_ceiling"] * ceilings[case["ceiling"]] / rate, 1, places=9)
            peers = {p["name"]: p for p in case["measurements"] if p["role"] == "peer" and "not_available" not in p}
            self.assertEqual(set(m["ratios"]), set(peers))
            for name, peer in peers.items():
                self.assertAlmostEqual(m["ratios"][name] * peer["rate"] / rate, 1, places=9)

    def test_something_of_pytorch_stands_beside_every_rung(self):
        beside = {m["name"]: set() for _, m in self.measurements("rung")}
        for case, m in self.measurements("rung"):
            beside[m["name"]] |= set(m["ratios"]) - {"fa2"}
        for name, peers in beside.items():
            self.assertTrue(peers, name)

    def test_a_peer_that_cannot_is_named_with_its_reason(self):
        missing = [m for _, m in self.measurements("peer") if "not_available" in m]
        self.assertIn("cuDNN", {m["name"] for m in missing})
        for m in missing:
            self.assertGreater(len(m["not_available"]), 5)
            self.assertNotIn("milliseconds", m)
            self.assertNotIn("rate", m)
        self.assertIn("cuDNN not available: PyTorch has it on GPUs only.", self.result.stdout)

    def test_the_output_fits_a_terminal(self):
        self.assertNotIn("\033", self.result.stdout)
        for line in self.result.stdout.splitlines():
            self.assertLessEqual(len(line), 120, line)

    def test_the_file_gives_the_same_tables(self):
        again = bench("--from", self.file)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertTrue(self.result.stdout.endswith(again.stdout))

    def test_plots_are_svg(self):
        if not shutil.which("gnuplot"):
            refused = bench("--from", self.file, "--plot", self.folder.name)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("gnuplot-nox", refused.stderr)
            return
        folder = os.path.join(self.folder.name, "it's a new folder")
        result = bench("--from", self.file, "--plot", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertEqual(set(os.listdir(folder)), PLOTS)
        for name in PLOTS:
            root = xml.etree.ElementTree.parse(os.path.join(folder, name)).getroot()
            self.assertTrue(root.tag.endswith("svg"), name)
            text = "".join(root.itertext())
            self.assertIn("CPU machine", text, name)
            for theme in (palette.LIGHT, palette.DARK):  # as the book's figures
                for colour in (theme.panel, theme.border, theme.ink):
                    self.assertIn(colour, text, name)
            # What has a colour that the style sheet does not know would be black on dark ground.
            coloured = {e.get(name) for e in root.iter() for name in ("fill", "stroke", "color")} - {None, "none", "currentColor"}
            for colour in coloured:
                self.assertTrue(f'="{colour}"]' in text, (name, colour))

    def test_without_gnuplot_it_says_so_before_measuring(self):
        empty = os.path.join(self.folder.name, "empty")
        os.makedirs(empty)
        result = bench("--plot", self.folder.name, "--device", "cpu", PATH=empty)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("gnuplot-nox", result.stderr)
        self.assertNotIn("phase", result.stdout)

    def test_readme_table_is_made_from_the_file(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(speed_table.section(root, f"{root}/README.md"), "")
            place = pathlib.Path(root, "docs/results/some_gpu")
            place.mkdir(parents=True)
            shutil.copy(self.file, place / "bench.json")
            text = speed_table.section(root, f"{root}/README.md")
            for word in ("abc123", "teaching machine", "flash_decode", "fa2_forward", "GB/s", "TFLOP/s", "% of GEMM"):
                self.assertIn(word, text)
            self.assertNotIn("![", text)
            (place / "ladder.svg").write_text("<svg/>")
            self.assertIn("(docs/results/some_gpu/ladder.svg)", speed_table.section(root, f"{root}/README.md"))
            # Rows without a phase are what PyTorch's kernels reach in 16 bits. Newer ones have some for the CPU, too.
            rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| phase", "| –"))]
            headlines = [m for case, m in self.measurements("rung") if "headline" in case["sweeps"]]
            self.assertEqual(len(rows), len(headlines))


class Behaviour(unittest.TestCase):
    def test_one_phase_alone(self):
        result = bench("3", "--quick", "--device", "cpu")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("fa2_forward", result.stdout)
        self.assertNotIn("fa1_forward", result.stdout)

    def test_time_limit_leaves_the_rest_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "b.json")
            result = bench("2", "--quick", "--device", "cpu", "--seconds", "0.0001", "--json", file)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("not begun: --seconds 0.0001 were over", result.stdout)
            report = json.loads(pathlib.Path(file).read_text())
            self.assertTrue(report["cases"])
            self.assertTrue(all(c["error"] for c in report["cases"]))

    def refused(self, *arguments, says):
        result = bench(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        for words in says:
            self.assertIn(words, result.stdout + result.stderr)

    def test_mistakes(self):
        self.refused("12", says=["PHASE"])
        self.refused("--seconds", "-3", says=["--seconds"])
        self.refused("0", "--quick", "--device", "cpu", "--json", "/nonexistent/b.json",
                     says=["--json", "/nonexistent/b.json"])
        self.refused("--from", "/nonexistent/b.json", says=["--from", "/nonexistent/b.json"])
        self.refused("--from", __file__, says=["--from", "no result of ./ladder bench"])
        self.refused("--from", "a", "--json", "b", says=["--json", "--from"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
