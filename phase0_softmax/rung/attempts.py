"""Attempts at the exercises of phase 0, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
    def test_sixteen_warps(self):
        for mistake, *changes in (
                ("nothing_merged", ("    mine = merge_across_warp(mine);\n    if constexpr (Warps == 1) return mine;", "    if (Warps > 1) return mine;")),
                ("each_warp_for_itself", ("if constexpr (Warps == 1) return mine;", "if (Warps > 0) return mine;")),
                ("only_the_first_warp_merges_all", ("    return merge_across_warp(of_warp);",
                                                    "    return warp == 0 ? merge_across_warp(of_warp) : mine;")),
                ("first_lanes_left_unmerged", ("    mine = merge_across_warp(mine);\n    if constexpr", "    if constexpr")),
                ("states_not_merged_a_second_time", ("    return merge_across_warp(of_warp);", "    return of_warp;")),
                ("own_state_read_by_every_lane", ("of_warp = states(0, lane);", "of_warp = states(0, warp);")),
                ("states_read_by_all_lanes", ("if (lane < Warps) of_warp = states(0, lane);", "of_warp = states(0, lane % Warps);")),
                ("own_state_in_the_surplus_lanes", ("    SoftmaxState of_warp;", "    SoftmaxState of_warp = mine;")),
                ("last_warp_left_out", ("if (lane < Warps)", "if (lane < Warps - 1)"))):
            with self.subTest(mistake):
                self.assert_says(self.judged("sixteen_warps", *changes), mistake="phase0_softmax/" + mistake)

    def test_a_state_that_all_lanes_write(self):
        self.assert_says(self.judged("sixteen_warps", ("if (lane == 0) states", "states")),
                         "both write at the same line: two threads own one element")

    def test_a_lane_that_has_left(self):
        verdict = self.judged("sixteen_warps", ("    SoftmaxState of_warp;", "    if (lane >= Warps) return mine;\n    SoftmaxState of_warp;"))
        self.assert_says(verdict, "which the mask 0xffffffff names, but which has returned from the kernel")

    def test_attention_in_one_pass(self):
        for mistake, *changes in (
                ("attention_factor_upside_down", ("rescale = __expf(m_part - m_safe)", "rescale = __expf(m_safe - m_part)")),
                ("attention_infinity_minus_infinity", ("m_safe = safe_maximum(m_new);\n            const float rescale",
                                                       "m_safe = m_new;\n            const float rescale")),
                ("attention_new_term_of_l_rescaled_too", ("rescale * l_part + p", "rescale * (l_part + p)")),
                ("attention_new_key_rescaled_too", ("p = __expf(s - m_safe);", "p = rescale * __expf(s - m_safe);")),
                ("attention_weight_under_the_old_maximum", ("p = __expf(s - m_safe);", "p = __expf(s - safe_maximum(m_part));")),
                ("attention_values_not_weighted", ("o_part[c] + p * v[c]", "o_part[c] + v[c]")),
                ("attention_l_not_collected", ("l_part = rescale * l_part + p;", ";")),
                ("attention_o_not_collected", ("o_part[c] = rescale * o_part[c] + p * v[c];", ";")),
                ("attention_maximum_not_kept", ("            m_part = m_new;\n", "")),
                ("attention_O_not_rescaled", ("rescale * o_part[c] + p", "o_part[c] + p"))):
            with self.subTest(mistake):
                verdict = self.judged("attention_in_one_pass", *changes)
                self.assert_says(verdict, mistake="phase0_softmax/" + mistake)
                self.assertNotIn("tile", "\n".join(check.title + check.trial + "".join(check.report) for check in verdict.checks))

    def test_infinity_minus_infinity(self):
        verdict = self.judged("two_states", ("base = safe_maximum(m)", "base = m"))
        self.assert_only_fails(verdict, "extreme scores")
        self.assert_says(verdict, "the first 64 are -inf", mistake="phase0_softmax/infinity_minus_infinity")
