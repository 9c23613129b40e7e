"""Tests of common/records/compare_with_ncu.py, on a table in the form of ncu's, written by hand: no GPU and no ncu are needed.

  python3 compare_with_ncu_test.py PATH/ladder-program PATH/compare_with_ncu.py
"""

import copy
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SCRIPT = sys.argv[1:3]
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("compare_with_ncu", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

READ = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
WIDE = f'''==PROF== Connected to process 4711 (/somewhere/ladder)
==PROF== Profiling "fa2_forward_kernel" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","{READ}","launch__registers_per_thread"
"","","","","","","","","","","","sector","register/thread"
"0","4711","ladder","127.0.0.1","void ladder::cuda::fa2_forward_kernel<float, (int)64>(ladder::cuda::ForwardTensors<T1>)","1","7","(128, 1, 1)","(4, 2, 1)","0","9.0","36,864","168"
"1","4711","ladder","127.0.0.1","decode_combine_kernel","1","7","(128, 1, 1)","(1, 1, 1)","0","9.0","","40"
'''
LONG = f'''"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","1","ladder","127.0.0.1","scores_kernel(StandardTensors<float>)","1","7","(64, 1, 1)","(16, 2, 1)","0","9.0","Command line profiler metrics","{READ}","sector","32768"
"0","1","ladder","127.0.0.1","scores_kernel(StandardTensors<float>)","1","7","(64, 1, 1)","(16, 2, 1)","0","9.0","Command line profiler metrics","launch__registers_per_thread","register/thread","128"
'''


class Reading(unittest.TestCase):
    def test_a_column_for_each_metric(self):
        first, second = script.read_ncu(WIDE)
        self.assertEqual(first, {"kernel": "fa2_forward_kernel", "metrics": {READ: 36864, "launch__registers_per_thread": 168}})
        self.assertEqual(second, {"kernel": "decode_combine_kernel", "metrics": {"launch__registers_per_thread": 40}})

    def test_a_line_for_each_metric(self):
        (kernel,) = script.read_ncu(LONG)
        self.assertEqual(kernel, {"kernel": "scores_kernel", "metrics": {READ: 32768, "launch__registers_per_thread": 128}})

    def test_no_table(self):
        with self.assertRaisesRegex(script.Problem, "ERR_NVGPUCTRPERM"):
            script.read_ncu("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")


class Measured(unittest.TestCase):
    def test_an_atomic_update_is_a_write(self):
        for what in ("sectors", "requests"):
            metrics = {f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum": amount for op, amount in (("st", 10), ("red", 5), ("atom", 1))}
            self.assertEqual(script.measured_as(script.COMPARED[f"global {what} written"][0], metrics), 16)


class Verdicts(unittest.TestCase):
    def verdict(self, counter, ours, theirs, instance="fa2_forward_kernel<float, 64>"):
        return script.compare_counter(counter, ours, theirs, script.COMPARED[counter][1], instance)

    def test_sectors_must_be_equal(self):
        self.assertEqual(self.verdict("global sectors read", 4096, 4096.0)["verdict"], "equal")
        self.assertEqual(self.verdict("global sectors read", 4096, 4097)["verdict"], "UNEXPLAINED")
        self.assertEqual(self.verdict("global sectors written", 0, 0)["verdict"], "equal")
        self.assertEqual(self.verdict("global sectors written", 1, 0)["verdict"], "UNEXPLAINED")

    def test_wavefronts_may_differ_by_five_percent(self):
        line = self.verdict("shared wavefronts of reads", 104, 100)
        self.assertEqual((line["verdict"], line["difference_percent"]), ("within 5 %", 4.0))
        self.assertEqual(self.verdict("shared wavefronts of reads", 95, 100)["verdict"], "within 5 %")
        self.assertEqual(self.verdict("shared wavefronts of reads", 106, 100)["verdict"], "UNEXPLAINED")

    def test_what_the_compiler_does_is_explained(self):
        line = self.verdict("shared requests that write", 1, 3, "decode_split_kernel<f16, 64, 1>")
        self.assertEqual(line["verdict"], "explained")
        self.assertIn("nvcc", line["explanation"])
        self.assertEqual(self.verdict("shared wavefronts of writes", 1, 3, "decode_split_kernel<float, 64, 1>")["verdict"],
                         "UNEXPLAINED")

    def test_an_explanation_covers_no_more_than_it_can_make(self):
        ragged = lambda ours: self.verdict("global requests read", ours, 1264, "block_softmax_kernel<float, 4>")["verdict"]
        self.assertEqual([ragged(1252), ragged(1200)], ["explained", "UNEXPLAINED"])

    def test_what_was_not_measured_is_not_equal(self):
        self.assertEqual(self.verdict("global sectors read", 4096, None)["verdict"], "not measured")


class BesideTheTour(unittest.TestCase):
    """Kernels of an entry that is no rung of the tour, one of which it launches for two tensors."""

    def test_kernels_of_8_bits_are_compared(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "f16.cpu.json"
            subprocess.run([PROGRAM, "profile", "7", "--keys", "140", "--head-dim", "64", "--profile", "h200", "--json", file],
                           check=True, capture_output=True, env={**os.environ, "LADDER_COMMIT": "abc123"})
            cpu = json.loads(file.read_text())
        cpu["phases"] = [rung for rung in cpu["phases"] if rung["kernel"] == "hopper_fp8_forward"]
        (rung,) = cpu["phases"]
        self.assertEqual([(launch["instance"], launch["launches"]) for launch in rung["launches"]],
                         [("quantize_blocks_kernel<f16, e4m3, 64, 64>", 1), ("quantize_blocks_kernel<f16, e4m3, 64, 128>", 2),
                          ("hopper_fp8_kernel<f16, e4m3, Fp8Shape<64> >", 1)])
        seen = [{"kernel": launch["kernel"], "metrics": Comparing.metrics_of(script.counted(launch))} for launch in rung["launches"]]
        for_values = copy.deepcopy(seen[1])
        for name, value in for_values["metrics"].items():
            if name.endswith(".sum"):
                for_values["metrics"][name] = value / 2
        ncu = [seen[0], for_values, copy.deepcopy(for_values), seen[2]]
        for launch in script.compare(cpu, cpu, ncu):
            self.assertEqual({line["verdict"] for line in launch["counters"].values()}, {"equal"}, launch["kernel"])
        ncu[2]["metrics"][READ] += 1
        self.assertEqual(script.compare(cpu, cpu, ncu)[1]["counters"]["global sectors read"]["verdict"], "UNEXPLAINED")


class Comparing(unittest.TestCase):
    """The counters of a real run on the CPU machine, and an ncu that saw the same, or not quite."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.file = pathlib.Path(cls.folder.name) / "f32.cpu.json"
        subprocess.run([PROGRAM, "profile", "3", "5", "--keys", "70", "--head-dim", "32", "--profile", "h200", "--json", cls.file],
                       check=True, capture_output=True, env={**os.environ, "LADDER_COMMIT": "abc123"})
        cls.cpu = json.loads(cls.file.read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def launches(self):
        return [launch for phase in self.cpu["phases"] for launch in phase["launches"]]

    def seen_by_ncu(self):
        return [{"kernel": launch["kernel"],
                 "metrics": self.metrics_of(script.counted(launch))}
                for launch in self.launches()]

    @staticmethod
    def metrics_of(counted):
        """All of a counter in the first of its metrics, and none in the others."""
        return {name: counted[counter] if name == names[0] else 0 for counter, (names, _) in script.COMPARED.items() for name in names}

    def test_equal(self):
        results = script.compare(self.cpu, self.cpu, self.seen_by_ncu())
        self.assertEqual(len(results), len(self.launches()))
        for launch in results:
            self.assertEqual({line["verdict"] for line in launch["counters"].values()}, {"equal"})

    def test_what_the_cpu_machine_withholds_is_not_compared(self):
        ncu, withheld = self.seen_by_ncu(), copy.deepcopy(self.cpu)
        launch = withheld["phases"][0]["launches"][0]
        next(iter(launch["global_memory"].values()))["sectors_read"] = None
        launch["shared_memory"]["wavefronts"] = launch["shared_memory"]["wavefronts_of_reads"] = None
        unknown = {counter for counter, line in script.compare(withheld, withheld, ncu)[0]["counters"].items()
                   if line["verdict"] == "not known here"}
        self.assertEqual(unknown, {"global sectors read", "shared wavefronts of reads", "shared wavefronts of writes"})

    def test_a_difference_is_found_where_it_is(self):
        ncu = self.seen_by_ncu()
        ncu[0]["metrics"][READ] += 1
        results = script.compare(self.cpu, self.cpu, ncu)
        found = [(launch["kernel"], counter) for launch in results for counter, line in launch["counters"].items()
                 if line["verdict"] == "UNEXPLAINED"]
        self.assertEqual(found, [("fa2_forward_kernel<float, 32>", "global sectors read")])

    def test_passes_that_waited_for_the_arbiter(self):
        ncu = self.seen_by_ncu()
        metric = script.COMPARED["shared wavefronts of writes"][0][0]
        ncu[0]["metrics"][script.BY_INSTRUCTION["shared wavefronts of writes"][0]] = ncu[0]["metrics"][metric]
        ncu[0]["metrics"][script.WRITTEN_BY_STMATRIX[0]] = 0
        ncu[0]["metrics"][metric] *= 2
        line = script.compare(self.cpu, self.cpu, ncu)[0]["counters"]["shared wavefronts of writes"]
        self.assertEqual(line["verdict"], "equal")
        self.assertIn("arbiter", line["explanation"])

    def test_what_ncu_counts_apart_is_added_up(self):
        ncu = self.seen_by_ncu()
        ordinary, by_ldmatrix = script.COMPARED["shared requests that read"][0]
        ncu[0]["metrics"][ordinary] -= 5
        ncu[0]["metrics"][by_ldmatrix] = 5
        line = script.compare(self.cpu, self.cpu, ncu)[0]["counters"]["shared requests that read"]
        self.assertEqual(line["verdict"], "equal")
        del ncu[0]["metrics"][by_ldmatrix]
        line = script.compare(self.cpu, self.cpu, ncu)[0]["counters"]["shared requests that read"]
        self.assertEqual(line["verdict"], "not measured")

    def test_other_kernels_than_were_launched(self):
        with self.assertRaisesRegex(script.Problem, "other kernels"):
            script.compare(self.cpu, self.cpu, self.seen_by_ncu()[1:])

    def test_another_shape_on_the_gpu(self):
        cuda = copy.deepcopy(self.cpu)
        cuda["phases"][0]["launches"][0]["grid"] = [9, 9, 9]
        with self.assertRaisesRegex(script.Problem, "grid"):
            script.compare(self.cpu, cuda, self.seen_by_ncu())

    def test_saved_files_make_the_report(self):
        folder = pathlib.Path(self.folder.name)
        (folder / "f32.cuda.json").write_text(json.dumps({**self.cpu, "device_name": "a GPU of paper"}))
        metrics = [name for names, _ in script.COMPARED.values() for name in names]
        columns = ["ID", "Kernel Name"] + metrics
        lines = [columns, ["", ""] + ["unit"] * len(metrics)]
        for i, kernel in enumerate(self.seen_by_ncu()):
            lines.append([str(i), f"void ladder::cuda::{kernel['kernel']}<float>(T)"] +
                         [str(kernel["metrics"][metric]) for metric in metrics])
        text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"
        for break_it, code in ((False, 0), (True, 1)):
            sectors = str(self.seen_by_ncu()[0]["metrics"][READ])
            (folder / "f32.csv").write_text(text.replace(f'"{sectors}"', '"1"', 1) if break_it else text)
            result = subprocess.run([sys.executable, SCRIPT, "--replay", folder, "--problem", "f32", "--out", folder / "report"],
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            report = json.loads((folder / "report.json").read_text())
            self.assertEqual((report["commit"], report["device_name"]), ("abc123", "a GPU of paper"))
            self.assertEqual("UNEXPLAINED" in report["verdicts"], break_it)
            self.assertIn("fa2_forward_kernel<float, 32>", (folder / "report.txt").read_text())

    def again(self, report):
        folder = pathlib.Path(self.folder.name)
        (folder / "earlier.json").write_text(json.dumps(report))
        result = subprocess.run([sys.executable, SCRIPT, "--again", folder / "earlier.json", "--profile", "h200", "--program", PROGRAM,
                                 "--out", folder / "again"], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def test_what_was_measured_is_held_against_todays_counts(self):
        ncu = self.seen_by_ncu()
        copies = script.WRITTEN_BY_COPIES
        ncu[0]["metrics"][copies] = 3  # ncu counts them apart
        ncu[0]["metrics"][script.COMPARED["shared wavefronts of writes"][0][0]] -= 3
        launches = script.compare(self.cpu, self.cpu, ncu)
        report = {"commit": "abc123", "device_name": "a GPU of paper", "verdicts": {"UNEXPLAINED": 1},
                  "problems": [{"name": "f32", "arguments": ["3", "5", "--keys", "70", "--head-dim", "32"], "launches": launches}]}
        launches[0]["counters"]["global sectors read"]["counted"] = 7  # what an earlier machine counted does not matter
        code, said = self.again(report)
        self.assertEqual(code, 0, said)
        self.assertIn("a GPU of paper, commit abc123; counted anew at commit", said)
        again = json.loads((pathlib.Path(self.folder.name) / "again.json").read_text())
        self.assertEqual(again["problems"][0]["launches"][0]["ncu"][copies], 3)
        launches[0]["counters"]["global sectors read"]["ncu"] += 1
        code, said = self.again(report)
        self.assertEqual(code, 1, said)
        self.assertIn("1 UNEXPLAINED", said)
        launches[0]["kernel"] = "another_kernel"
        self.assertIn("of other kernels than run now", self.again(report)[1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
