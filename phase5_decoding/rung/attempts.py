"""Attempts at the exercises of phase 5, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
    def test_splits_that_overlap(self):
        verdict = self.judged("share", ("const int begin = 0,", "const int begin = split * kKeyTile < keys ? split * kKeyTile : keys,"),
                              begin="start")
        self.assert_says(verdict, "several splits", "LSE is wrong too")

    def test_a_mean_without_weights(self):
        verdict = self.judged("merge", ("share.of(1.0f)", "(LSE[i] == -INFINITY ? 0.0f : 1.0f)"), ("share.of(O[i])", "O[i]"),
                              ("s = before.of(s);", ""), ("O_n = before.of(O_n);", ";"),
                              ("share.of(s_g(0, g))", "s_g(0, g)"), ("share.of(O_g(g, c))", "O_g(g, c)"))
        self.assert_says(verdict, "several parts", mistake="phase5_decoding/splits_not_weighted")

    def test_infinity_minus_infinity(self):
        verdict = self.judged("merge", ("share.of(1.0f)", "__expf(LSE[i] - m_new)"),
                              ("share.of(O[i])", "__expf(LSE[i] - m_new) * O[i]"))
        self.assert_says(verdict, "parts that saw no key", "NaN", "in every 3rd row")

    def test_the_best_number_of_splits(self):
        verdict = self.judged("how_many_splits", (">= 0.85 * best", ">= best"))
        self.assert_says(verdict, "splits chosen", "efficiency")

    def test_a_page_table_read_for_each_key(self):
        verdict = self.judged("paged", ("take_key(b, key);", "take_key(t.page_table(b, key / 16), key % 16);"), begin="start")
        self.assert_only_fails(verdict, "the table asked once for each page")
        self.assert_says(verdict, " bytes counted, ")

    def test_keys_taken_by_every_warp(self):
        verdict = self.judged("paged", ("for (int n = warp; n * page_rows < keys; n += kPagedWarps)",
                                        "for (int n = 0; n * page_rows < keys; ++n)"))
        self.assert_says(verdict, "LSE", "O is right")
        costs = [check for check in verdict.checks if check.title == "every key read once"]
        self.assertEqual([(check.ran, check.report) for check in costs], [(False, ["counted once the results are right"])])
