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
        verdict = self.judged("merge", ("share.of(1.0f)", "(LSE[i] == -INFINITY ? 0.0f : 1.0f)"), ("share.of(O[i])", "O[i]"),
                              ("s = before.of(s);", ""), ("O_n = before.of(O_n);", ";"),
                              ("share.of(s_g(0, g))", "s_g(0, g)"), ("share.of(O_g(g, c))", "O_g(g, c)"))
        self.assert_says(verdict, "several parts", mistake="phase5_decoding/splits_not_weighted")

    def test_infinity_minus_infinity(self):
        verdict = self.judged("merge", ("share.of(1.0f)", "__expf(LSE[i] - m_new)"),
                              ("share.of(O[i])", "__expf(LSE[i] - m_new) * O[i]"))
        self.assert_says(verdict, "parts that saw no key", "NaN", "only in row 0")

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

    def test_the_online_update(self):
        for mistake, *changes in (
                ("infinity_minus_infinity", ("m_safe = safe_maximum(m_new);", "m_safe = m_new;")),
                ("l_not_collected", ("l_i[i] = rescale * l_i[i] + row_sum(l_tile);", ";")),
                ("old_sum_of_every_lane", ("rescale * l_i[i] + row_sum(l_tile);", "row_sum(rescale * l_i[i] + l_tile);")),
                ("maximum_of_this_lane_only", ("row_max(m_tile)", "m_tile")),
                ("sum_of_this_lane_only", ("row_sum(l_tile)", "l_tile")),
                ("exercises/reductions_forgotten", ("row_max(m_tile)", "m_tile"), ("row_sum(l_tile)", "l_tile")),
                ("rescale_upside_down", ("rescale = merge_weight(m_i[i], m_new)", "rescale = merge_weight(m_new, m_i[i])"))):
            with self.subTest(mistake):
                self.assert_says(self.judged("online_update", *changes), mistake="phase3_fa2/" + mistake)

    def test_the_loop(self):
        for mistake, *changes in (
                ("O_not_collected", ("accumulate(O_i, owner, P_ij, V_j);", ";")),
                ("first_tile_only", ("first_key += B_c)", "first_key += key_length)")),
                ("tiles_counted_for_keys", ("K_j, K, first_key,", "K_j, K, first_key / B_c,"), ("V_j, V, first_key,", "V_j, V, first_key / B_c,")),
                ("first_tile_fetched_always", ("K_j, K, first_key,", "K_j, K, 0,"), ("V_j, V, first_key,", "V_j, V, 0,")),
                ("V_from_K", ("V_j, V, first_key,", "V_j, K, first_key,"))):
            with self.subTest(mistake):
                self.assert_says(self.judged("loop_interchange", *changes), mistake="phase3_fa2/" + mistake)

    def test_the_soft_cap(self):
        scaled = "S_ij[i][j] * t.scale"
        right = f"exists ? softcap * tanhf({scaled} / softcap) : -INFINITY"
        for mistake, written in (("exercises/no_cap", f"exists ? {scaled} : -INFINITY"),
                                 ("exercises/cap_after_the_mask", f"softcap * tanhf((exists ? {scaled} : -INFINITY) / softcap)"),
                                 ("exercises/cap_without_its_factor", f"exists ? tanhf({scaled} / softcap) : -INFINITY"),
                                 ("exercises/cap_without_its_division", f"exists ? softcap * tanhf({scaled}) : -INFINITY"),
                                 ("exercises/cap_without_factor_and_division", f"exists ? tanhf({scaled}) : -INFINITY"),
                                 ("exercises/cap_before_the_scale", "exists ? t.scale * softcap * tanhf(S_ij[i][j] / softcap) : -INFINITY"),
                                 ("no_scale", "exists ? softcap * tanhf(S_ij[i][j] / softcap) : -INFINITY")):
            with self.subTest(mistake):
                self.assert_says(self.judged("softcap", (right, written)), mistake="phase3_fa2/" + mistake)

    def test_a_lane_that_has_left(self):
        verdict = self.judged("sixteen_warps", ("    SoftmaxState of_warp;", "    if (lane >= Warps) return mine;\n    SoftmaxState of_warp;"))
        self.assert_says(verdict, "which the mask 0xffffffff names, but which has returned from the kernel")

    def test_a_fault_inside_a_helper_names_the_line_that_called_it(self):
        call = "const float m_new = fmaxf(m_i[i], row_max(m_tile));"
        changed = f"if (owner.lane == 7) return;\n            {call}"
        text = exercises.find(KNOWN, "online_update").solved().replace(call, changed)
        line = text[:text.index(call)].count("\n") + 1
        verdict = self.judged("online_update", (call, changed))
        self.assert_says(verdict, "attention/warp_reduce.cuh", f"called from line {line} of your file")

    def test_a_tile_of_an_impossible_size(self):
        exercise = exercises.find(KNOWN, "half_the_traffic")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "half_the_traffic.cuh"
            file.write_text(exercise.solved().replace("int B_r = 128;", "int B_r = 40;"))
            verdict = workbench.judge(exercise, file, seed=7)
        self.assertEqual(verdict.stage, "not compiled")
        self.assertIn("B_r must be a multiple of 16", "\n".join(verdict.report))
        self.assertEqual(sum("B_r must be" in line for line in verdict.report if line.startswith("line ")), 1, verdict.report)


if __name__ == "__main__":
    unittest.main()
