"""What run.py shares out: every part has something that takes long, and any N parts together run everything once.

  python3 parts_test.py
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run  # noqa: E402

TESTS = {"phase7_toy.cpu": ["phase7", "cpu"], "phase8_toy.cpu": ["phase8", "cpu"], "phase9_toy.cpu": ["phase9", "cpu"],
         "simt_warp.cpu": ["common", "cpu"], "simt_machine.cpu": ["common", "cpu"], "reference.cpu": ["common", "cpu"],
         "site.cpu": ["common", "cpu"]}
LONG = ["phase7_toy.cpu", "phase8_toy.cpu", "phase9_toy.cpu", "reference.cpu"]


class Parts(unittest.TestCase):
    def test_together_they_are_everything(self):
        for parts in range(1, 12):
            whole, shares = [], {}
            for k in range(1, parts + 1):
                units = run.units_of(TESTS, (k, parts))
                self.assertTrue(any(unit.test in LONG for unit in units), f"part {k} of {parts}")
                for unit in units:
                    if unit.test in LONG:
                        shares.setdefault((unit.test, unit.shards), []).append(unit.shard)
                    else:
                        whole.append((unit.test, unit.shards, unit.page))
            self.assertEqual(sorted(test for test, _ in shares), LONG)
            for (_, shards), seen in shares.items():
                self.assertEqual(sorted(seen), list(range(shards)))
            self.assertEqual(sorted(whole), [("simt_machine.cpu", 1, 0), ("simt_machine.cpu", 1, 16384), ("simt_machine.cpu", 1, 65536),
                                             ("simt_warp.cpu", 1, 0)])

    def test_nothing_to_run_is_a_failure(self):
        with self.assertRaises(run.Failure):
            run.units_of({"site.cpu": ["common", "cpu"]}, (1, 1))

    def test_packages_are_libraries_and_no_programs(self):
        packages = run.packages()
        self.assertIn("libtorch-dev", packages)
        self.assertIn("libgtest-dev", packages)
        self.assertNotIn("cmake", packages)


if __name__ == "__main__":
    unittest.main()
