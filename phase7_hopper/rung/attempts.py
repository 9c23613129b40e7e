"""Attempts at the exercises of phase 7, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
    # --- products ---

    def test_scores_added_to_what_was_there(self):
        verdict = self.judged("products", ("simt::k_major(K_j, 0, k), k != 0)", "simt::k_major(K_j, 0, k), true)"))
        self.assert_says(verdict, "registers not ready for a product")

    def test_scores_in_no_group(self):
        verdict = self.judged("products", ("k != 0);\n    simt::commit_products();", "k != 0);"))
        self.assert_says(verdict, "product not waited for")

    def test_no_fence(self):
        verdict = self.judged("products", ("    simt::begin_products(S_ij);\n", ""))
        self.assert_says(verdict, "registers not ready for a product")

    def test_always_the_first_columns(self):
        verdict = self.judged("products", ("simt::k_major(K_j, 0, k), k != 0)", "simt::k_major(K_j, 0, 0), k != 0)"))
        self.assert_says(verdict, "O at batch 0")

    # --- the producer's four lines ---

    def test_the_consumers_parity(self):
        verdict = self.judged("ring", ("empty[at.stage].wait(at.parity ^ 1);", "empty[at.stage].wait(at.parity);"))
        self.assert_says(verdict, "deadlock", "K_j empty[0]")

    def test_elements_for_bytes(self):
        verdict = self.judged("ring", ("B_c * D * int(sizeof(T))", "B_c * D"))
        self.assert_says(verdict, "misused barrier")

    def test_does_not_wait(self):
        verdict = self.judged("ring", ("        empty[at.stage].wait(at.parity ^ 1);  // whoever used the stage last is done with it\n", ""))
        self.assertFalse(verdict.passed)

    # --- two rows of a thread ---

    def test_a_maximum_for_each_lane(self):
        verdict = self.judged("two_rows", ("max_over<4>(fmaxf(largest[h][0], largest[h][1]))", "fmaxf(largest[h][0], largest[h][1])"))
        self.assertFalse(verdict.passed)

    def test_the_maximum_unscaled(self):
        verdict = self.judged("two_rows", ("largest[h][1])) * scale.exponent", "largest[h][1]))"))
        self.assertFalse(verdict.passed)
