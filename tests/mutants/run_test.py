"""run.py against programs that only pretend: what it makes of mutants that are caught, missed, mistaken, stuck or fatal."""

import contextlib
import dataclasses
import io
import json
import pathlib
import stat
import sys
import tempfile
import unittest

import catalogue
import run

PRETENDER = """#!{python}
import json, os, signal, sys, time
FATES = {fates!r}
if "nobody" in FATES: sys.exit(0)
for name in sys.argv[1:]:
    fate = FATES[name]
    def say(event): print(json.dumps({{"mutant": name, **event}}), flush=True)
    say({{"begins": "checked"}})
    if fate == "hangs": time.sleep(60)
    if fate == "dies":
        print("terminate called", file=sys.stderr, flush=True)
        sys.exit(9)
    fate, _, factor = fate.partition(" by ") if fate else (None, "", "")
    say({{"caught_by": fate, "check": "words for " + fate, "trial": "odd_columns", "message": "details",
         **({{"factor": float(factor)}} if factor else {{}})}} if fate else {{"caught_by": None}})
    if name.startswith("original"): continue
    say({{"begins": "value_alone"}})
    if fate == "race": time.sleep(60)
    say({{"value_alone": "yes" if fate == "reference" else "no", "trial": None}})
"""


def mutant(name, caught_by="reference"):
    return catalogue.Mutant(phase="phase9_toy", name=name, title="a title", misconception="m", why="w", hint="h",
                            file="phase9_toy/toy.cuh", find="a", replace="b", caught_by=caught_by)


class Run(unittest.TestCase):
    def setUp(self):
        self.silence, run.SILENCE = run.SILENCE, 3
        self.addCleanup(setattr, run, "SILENCE", self.silence)

    def results(self, fates, mutants, originals=("original_f32",)):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "pretender")
            program.write_text(PRETENDER.format(python=sys.executable, fates={"original_f32": None, **fates}))
            program.chmod(program.stat().st_mode | stat.S_IEXEC)
            steps = []
            results, complaints = run.run_program(program, mutants, list(originals), steps.append)
            self.assertEqual(sum(steps), len(mutants))
            return {r.mutant.name: r for r in results}, complaints

    def test_caught_as_its_entry_says(self):
        results, complaints = self.results({"a": "reference"}, [mutant("a")])
        self.assertEqual((results["a"].problem(), results["a"].value_alone, complaints), (None, "yes", []))

    def test_not_caught(self):
        results, _ = self.results({"a": None}, [mutant("a")])
        self.assertIn("no trial objects", results["a"].problem())
        self.assertIn("phase9_toy/rung/mutants.toml", results["a"].problem())

    def test_a_wrong_result_must_be_plainly_wrong(self):
        results, _ = self.results({"a": "reference by 2.5", "b": "reference by 3"}, [mutant("a"), mutant("b")])
        self.assertIn("only 2.5 times its bound", results["a"].problem())
        self.assertIn("odd_columns", results["a"].problem())
        self.assertIsNone(results["b"].problem())
        self.assertEqual(results["b"].json()["factor"], 3)

    def test_caught_by_something_else(self):
        results, _ = self.results({"a": "out_of_bounds"}, [mutant("a")])
        for words in ("killed by out_of_bounds", "its entry says reference", "details", "odd_columns"):
            self.assertIn(words, results["a"].problem())

    def test_one_that_hangs_or_dies_costs_only_itself(self):
        fates = {"a": "hangs", "b": "dies", "c": "reference"}
        results, complaints = self.results(fates, [mutant(name) for name in fates])
        self.assertEqual(complaints, [])
        self.assertEqual(results["a"].value_alone, "hangs")
        self.assertIn("hangs", results["a"].problem())
        self.assertIn("terminate called", results["b"].problem())
        self.assertIsNone(results["c"].problem())

    def test_one_that_hangs_only_without_diagnoses_is_caught(self):
        results, _ = self.results({"a": "race", "b": "reference"}, [mutant("a", "race"), mutant("b")])
        self.assertEqual((results["a"].problem(), results["a"].value_alone), (None, "hangs"))
        self.assertIsNone(results["b"].problem())

    def test_an_original_that_fails_a_trial(self):
        _, complaints = self.results({"original_f32": "reference", "a": "reference"}, [mutant("a")])
        self.assertEqual(len(complaints), 1)
        self.assertIn("original_f32, which has no change, fails trial odd_columns", complaints[0])

    def test_host_code_has_a_program_for_its_original(self):
        _, complaints = self.results({}, [])
        self.assertEqual(complaints, [])
        _, complaints = self.results({"original_f32": "reference"}, [])
        self.assertIn("original_f32, which has no change", complaints[0])
        host = catalogue.HostCode(mutants=[dataclasses.replace(mutant("a"), phase=catalogue.SHARED)])
        self.assertEqual(list(run.with_originals(host.programs(), [host])),
                         [("mutants_attention_original", [], ["original_f32"]),
                          ("mutants_attention_a", host.mutants, [])])

    def test_a_program_of_another_catalogue(self):
        _, complaints = self.results({"nobody": None}, [mutant("a")])
        self.assertIn("build it again", complaints[0])

    def test_the_tables_and_the_json(self):
        results, _ = self.results({"a": "reference", "b": None}, [mutant("a"), mutant("b")])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            run.report(list(results.values()), run.Terminal())
        self.assertRegex(said.getvalue(), r"(?m)^  a  +words for reference  +odd_columns  +-  +yes$")
        self.assertRegex(said.getvalue(), r"(?m)^  b  +NOTHING  +-  +-  +no  <- see below$")
        data = json.loads(json.dumps([r.json() for r in results.values()]))
        self.assertEqual([m["passed"] for m in data], [True, False])
        self.assertEqual(run.summary(list(results.values())),
                         {"mutants": 2, "killed": 1, "by_diagnosis": 0, "by_value": 1, "value_alone_yes": 1,
                          "value_alone_no": 1, "value_alone_hangs": 0, "value_alone_does_not_run": 0})


if __name__ == "__main__":
    unittest.main()
