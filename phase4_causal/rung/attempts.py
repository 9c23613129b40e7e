"""Attempts at the exercises of phase 4, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
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
