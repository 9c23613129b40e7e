"""Attempts at the exercises of phase 9, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
    def test_a_mean_of_both(self):
        verdict = self.judged("one_more_part", ("(kept.of(float(O_before(row, c))) + added.of(float(O_p(row, c)))) / s",
                                                "(float(O_before(row, c)) + float(O_p(row, c))) / 2.0f"))
        self.assert_says(verdict, "one more part", "O", "LSE is right")

    def test_the_last_part_alone(self):
        verdict = self.judged("one_more_part", begin="start")
        self.assert_says(verdict, "one more part", "LSE is wrong too")

    def test_infinity_minus_infinity(self):
        verdict = self.judged("one_more_part", ("const Share kept(before, m), added(part, m);",
                                                "struct Plain { float w; float of(float y) const { return w * y; } };\n"
                                                "    const Plain kept{expf(before - m)}, added{expf(part - m)};"))
        self.assert_says(verdict, "parts that saw no key", "NaN", "LSE is wrong too")

    def test_intervals_of_one_length(self):
        verdict = self.judged("zigzag", ("const std::int64_t first = interval * length / (2 * ranks), "
                                         "end = (interval + 1) * length / (2 * ranks);",
                                         "const std::int64_t first = length / (2 * ranks) * interval, end = first + length / (2 * ranks);"))
        self.assert_says(verdict, "ragged ends", "the rank holds ")

    def test_the_late_interval_first(self):
        verdict = self.judged("zigzag", ("{rank, 2 * ranks - 1 - rank}", "{2 * ranks - 1 - rank, rank}"))
        self.assert_says(verdict, "positions from both ends", "position: got ")

    def test_every_stripe_is_the_own(self):
        verdict = self.judged("striped", ("owner <= rank ? row + 1 : row", "row + 1"))
        self.assert_only_fails(verdict, "keys of ranks with larger numbers")
        self.assert_says(verdict, "seen: got ", "the owner's keys are ")

    def test_the_last_step_waits_too(self):
        verdict = self.judged("does_it_pay", ("(ranks - 1) * std::max(step.compute, step.travel) + step.compute",
                                                  "ranks * std::max(step.compute, step.travel)"))
        self.assert_says(verdict, "many ranks", "seconds: got ", "in which step nothing is")

    def test_one_of_two_formulas(self):
        verdict = self.judged("does_it_pay", ("element * flops / (2 * bytes)", "flops / bytes"))
        self.assert_only_fails(verdict, "how many hide")
        verdict = self.judged("does_it_pay", ("(ranks - 1) * std::max(step.compute, step.travel) + step.compute", "ranks * step.compute"))
        self.assertEqual((verdict.points, verdict.possible), (10, 30))
