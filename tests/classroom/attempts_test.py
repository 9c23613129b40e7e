"""What somebody writes who has nearly understood it, and what the judge then says: the check that fails, and words that help."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))

import exercises  # noqa: E402
import workbench  # noqa: E402

KNOWN = exercises.read()


class Attempts(unittest.TestCase):
    def judged(self, name, *changes, begin="solved"):
        """The verdict on an exercise's solution, or starting point, with changes [find, replace]."""
        exercise = exercises.find(KNOWN, name)
        text = exercise.solved() if begin == "solved" else exercise.starting_point()
        for find, replace in changes:
            self.assertEqual(text.count(find), 1, find)
            text = text.replace(find, replace)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / pathlib.Path(exercise.file).name
            file.write_text(text)
            verdict = workbench.judge(exercise, file, seed=7)
        self.assertEqual(verdict.stage, "judged", verdict.report)
        self.assertFalse(verdict.passed)
        return verdict

    def assert_says(self, verdict, *words, mistake=""):
        failed = verdict.first_failure
        for word in words:
            self.assertIn(word, "\n".join([failed.title, failed.trial, *failed.report]))
        self.assertEqual(failed.mistake, mistake)

    def assert_only_fails(self, verdict, title):
        self.assertEqual([check.title for check in verdict.checks if not check.passed], [title])

    def test_the_wrong_query_decides_what_is_full(self):
        verdict = self.judged("stages", ("fewest = visible_keys(mask, first_query,", "fewest = visible_keys(mask, last_query,"))
        self.assert_says(verdict, "aligned bottom-right", "got full 1", "expected full 0", "keys that are seen",
                         mistake="phase4_causal/last_query_decides_what_is_full")

    def test_a_last_query_that_does_not_exist(self):
        verdict = self.judged("stages", ("query_length - first_query < B_r ? query_length - 1 : first_query + B_r - 1",
                                         "first_query + B_r - 1"))
        self.assert_only_fails(verdict, "aligned top-left")
        self.assert_says(verdict, "the last of the tile")

    def test_garbage_times_zero(self):
        verdict = self.judged("masked_update", ("        if constexpr (stage == Stage::full)\n    ", ""),
                              ("        else\n            accumulate_visible(O_i, owner, visible_here, P_ij, V_j);\n", ""))
        self.assert_says(verdict, "NaN in keys that no query sees", "got NaN", "LSE is right",
                         mistake="phase4_causal/NaN_of_an_unseen_key")

    def test_a_window_that_is_only_masked(self):
        verdict = self.judged("window", (".first = first.from / B_c", ".first = 0"))
        self.assert_only_fails(verdict, "tiles left of the window are never read")
        self.assert_says(verdict, "counted", "allowed")

    def test_a_window_that_begins_before_the_keys(self):
        verdict = self.judged("window", ("to > window ? to - window : 0", "to - window"))
        self.assert_says(verdict, "lies outside the tensor: index -")

    def test_splits_that_overlap(self):
        verdict = self.judged("share", ("const int begin = 0,", "const int begin = split * kKeyTile < keys ? split * kKeyTile : keys,"),
                              begin="start")
        self.assert_says(verdict, "several splits", "LSE is wrong too")

    def test_a_mean_without_weights(self):
        verdict = self.judged("merge", ("contribution(1.0f, LSE_p[i], m_new)", "LSE_p[i] == -INFINITY ? 0.0f : 1.0f"),
                              ("contribution(O_p[i][c], LSE_p[i], m_new)", "O_p[i][c]"), ("s = contribution(s, m, m_new);", ""),
                              ("O_n[c] = contribution(O_n[c], m, m_new);", ";"),
                              ("contribution(s_w(0, w), m_w(0, w), largest)", "s_w(0, w)"),
                              ("contribution(O_w(w, c), m_w(0, w), largest)", "O_w(w, c)"))
        self.assert_says(verdict, "several parts", mistake="phase5_decoding/splits_not_weighted")

    def test_infinity_minus_infinity(self):
        verdict = self.judged("merge", ("contribution(1.0f, LSE_p[i], m_new)", "__expf(LSE_p[i] - m_new)"),
                              ("contribution(O_p[i][c], LSE_p[i], m_new)", "__expf(LSE_p[i] - m_new) * O_p[i][c]"))
        self.assert_says(verdict, "parts that saw no key", "NaN", "only in row 0")

    def test_the_best_number_of_splits(self):
        verdict = self.judged("how_many_splits", (">= 0.85 * best", ">= best"))
        self.assert_says(verdict, "splits chosen", "efficiency")

    def test_a_page_table_read_for_each_key(self):
        verdict = self.judged("paged", ("take_key(b, key);", "take_key(t.page_table(b, key / 16), key % 16);"), begin="start")
        self.assert_only_fails(verdict, "the table asked once for each page")

    def test_keys_taken_by_every_warp(self):
        verdict = self.judged("paged", ("for (int n = warp; n * page_rows < keys; n += kPagedWarps)",
                                        "for (int n = 0; n * page_rows < keys; ++n)"))
        self.assert_says(verdict, "LSE", "O is right")
        costs = [check for check in verdict.checks if check.title == "every key read once"]
        self.assertEqual([(check.ran, check.report) for check in costs], [(False, ["counted once the results are right"])])


if __name__ == "__main__":
    unittest.main()
