"""Attempts at the exercises of phase 3, and what the judge says to them; run by tests/classroom/attempts_test.py."""

import pathlib
import tempfile

import exercises
import workbench
from attempt import KNOWN, Attempt


class Attempts(Attempt):
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
