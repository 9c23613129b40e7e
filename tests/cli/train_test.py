"""End-to-end tests of ./ladder train on the CPU machine: killed runs go on bit for bit, and what cannot be used is refused in words.

  python3 train_test.py PATH/ladder-program
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv[1]
STEPS = 10


def command(folder, *arguments):
    return [PROGRAM, "train", "--device", "cpu", "--out", str(folder), "--bytes", "20", *arguments]


def train(folder, *arguments):
    return subprocess.run(command(folder, *arguments), capture_output=True, text=True, timeout=500)


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.whole = cls.folder / "whole"
        cls.result = train(cls.whole, "--steps", str(STEPS), "--compare")
        assert cls.result.returncode == 0, cls.result.stderr

    def refused(self, result, *needles):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for needle in needles:
            self.assertIn(needle, result.stderr)

    def test_it_says_what_it_does(self):
        said = self.result.stdout
        for words in ("0.12 M weights", "files of this repository", "causal_forward and plain_backward to learn, flash_decode to write",
                      f"step {STEPS}/{STEPS}", "tokens/s", "left", "on held-out text", "bits a byte", "PyTorch's SDPA", "attention takes  ",
                      "loss.svg", "\nThe running maximum"):
            self.assertIn(words, said)

    def test_it_learns_as_with_pytorchs_attention(self):
        rows = [line.split(",") for line in (self.whole / "losses.csv").read_text().splitlines()]
        self.assertEqual(rows[0], ["step", "loss", "sdpa"])
        self.assertEqual([int(row[0]) for row in rows[1:]], list(range(1, STEPS + 1)))
        self.assertLess(float(rows[-1][1]), float(rows[1][1]))
        for _, ours, theirs in rows[1:]:
            self.assertAlmostEqual(float(ours), float(theirs), delta=2e-3)

    def test_its_record_says_what_it_printed(self):
        record = json.loads((self.whole / "record.json").read_text())
        self.assertEqual([run["attention"] for run in record["runs"]], ["FlashLadder", "PyTorch's SDPA"])
        self.assertEqual((record["steps"], record["seed"]), (STEPS, 0))
        self.assertIn(f"{record['runs'][0]['held_out_loss']:.3f} on held-out text", self.result.stdout)
        for run in record["runs"]:  # a busy machine may have taken longer for the step without attention than for that with it
            share = run["share_of_attention"]
            self.assertIn(f"{100 * share:.0f} % of a step" if share > 0 else "nothing of a step", self.result.stdout)
        self.assertTrue(record["sample"].startswith("The running maximum"))

    def test_the_curve_is_a_picture(self):
        root = xml.etree.ElementTree.parse(self.whole / "loss.svg").getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        text = "".join(root.itertext())
        self.assertIn("FlashLadder", text)
        self.assertIn("PyTorch's SDPA", text)

    def test_a_killed_run_goes_on_bit_for_bit(self):
        folder = self.folder / "killed"
        more = ["--steps", str(STEPS)]
        for kept in (2, 5):  # steps that a checkpoint must hold before the run is killed
            with subprocess.Popen(command(folder, *more, "--checkpoint-every", "1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True) as run:
                deadline = time.monotonic() + 300
                while self.steps_in(folder) < kept and run.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.02)
                run.kill()
                said, complaint = run.communicate()
            self.assertEqual(run.returncode, -9, said + complaint)
            self.assertFalse((folder / "losses.csv").exists())
            self.refused(train(folder, "--steps", str(STEPS)), "--resume", "--restart", f"of {STEPS}")
            more = ["--resume"]
        result = train(folder, "--resume", "--compare")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("goes on after step", result.stdout)
        self.assertEqual((folder / "losses.csv").read_text(), (self.whole / "losses.csv").read_text())

    @staticmethod
    def steps_in(folder):
        try:
            data = (folder / "checkpoint.safetensors").read_bytes()
        except FileNotFoundError:
            return 0
        return int(data[:10000].split(b'\\"step\\":', 1)[1].split(b",")[0])

    def test_it_writes_on(self):
        calls = [train(self.whole, "--generate", "The running maximum", "--seed", seed) for seed in ("1", "1", "2")]
        for result in calls:
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith("The running maximum"), result.stdout)
        self.assertEqual(calls[0].stdout, calls[1].stdout)
        self.assertNotEqual(calls[0].stdout, calls[2].stdout)

    def test_what_cannot_be_used_is_refused_in_words(self):
        broken = self.folder / "broken"
        shutil.copytree(self.whole, broken)
        with open(broken / "checkpoint.safetensors", "r+b") as file:
            file.seek(-5000, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-5000, os.SEEK_END)
            file.write(bytes([byte ^ 0x55]))
        for arguments in (["--resume"], ["--generate", "A"], []):
            self.refused(train(broken, *arguments), "checkpoint.safetensors", "damaged", "--restart")
        self.refused(train(self.folder / "nothing", "--resume"), "there is no checkpoint", "--out")
        self.refused(train(self.folder / "nothing", "--generate", "A"), "there is no checkpoint")
        self.refused(train(self.whole, "--resume", "--steps", "77"), f"has {STEPS} steps", "--restart")
        self.refused(train(self.whole, "--generate", ""), "empty")
        for arguments in (["--steps", "0"], ["--config", "huge"], ["--resume", "--restart"]):
            self.assertNotEqual(train(self.whole, *arguments).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
