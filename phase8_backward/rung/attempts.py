"""Attempts at the exercises of phase 8, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt


class Attempts(Attempt):
    # --- one number for each row ---

    def test_the_square_of_the_output(self):
        verdict = self.judged("row_dots", ("float(dO(query, c)) * float(O(query, c))", "float(O(query, c)) * float(O(query, c))"))
        self.assert_says(verdict, "dK at", "dV is right", mistake="phase8_backward/D_of_the_output_alone")

    def test_a_lane_keeps_its_own_part(self):
        verdict = self.judged("row_dots", ("sum = warp_sum(sum);", ""))
        self.assert_says(verdict, "dV is right", "dQ is wrong too")

    def test_each_lane_reads_the_whole_row(self):
        verdict = self.judged("row_dots", ("for (int c = lane; c < int(O.extent(1)); c += 32)", "for (int c = 0; c < int(O.extent(1)); ++c)"),
                              ("sum = warp_sum(sum);", ""))
        self.assert_only_fails(verdict, "O is read once, in whole sectors")

    # --- when the loss looks at LSE ---

    def test_lse_with_the_wrong_sign(self):
        verdict = self.judged("dlse", ("sum - t.dLSE(b, h, query)", "sum + t.dLSE(b, h, query)"))
        self.assert_says(verdict, "with a gradient of LSE", "dV is right", mistake="phase8_backward/dlse_added")

    # --- the gradient of the queries ---

    def test_the_mean_forgotten(self):
        verdict = self.judged("dq_step", ("(dP[i][j] - D_i[i])", "dP[i][j]"))
        self.assert_says(verdict, "dQ at", "dK is right", mistake="phase8_backward/dq_without_D")

    def test_nobody_waits_for_the_row(self):
        verdict = self.judged("dq_step", ("__syncwarp();  // the rows of dS_ij are complete before their warp reads them; no other warp touches them", ""))
        self.assert_says(verdict, "dS_ij")

    # --- keys stay, queries pass ---

    def test_the_mean_forgotten_for_keys(self):
        verdict = self.judged("dkdv_step", ("P[i][q] * (dP[i][q] - rows_i(1, column))", "P[i][q] * dP[i][q]"))
        self.assert_says(verdict, "dV is right", "dQ is right", mistake="phase8_backward/dS_without_D")

    def test_gradients_not_weighed(self):
        verdict = self.judged("dkdv_step", ("P[i][q] * (dP[i][q] - rows_i(1, column))", "dP[i][q] - rows_i(1, column)"))
        self.assert_says(verdict, "dK at", mistake="phase8_backward/dS_without_P")

    def test_keys_from_the_weights(self):
        verdict = self.judged("dkdv_step", ("P_ij(owner.row(i), column) = P[i][q] * (dP[i][q] - rows_i(1, column));", ";"))
        self.assert_says(verdict, "dV is right", mistake="phase8_backward/dS_is_P")

    def test_barriers_of_the_whole_block(self):
        verdict = self.judged("dkdv_step", ("__syncwarp();  // the warp is done with P_ij^T", "__syncthreads();  // the warp is done with P_ij^T"))
        self.assert_only_fails(verdict, "two barriers of the whole block for each step")

    # --- the other half of the triangle ---

    def test_the_last_tile_for_nobody(self):
        verdict = self.judged("first_tile", ("first_seen < query_length ? first_seen / B_r : (query_length + B_r - 1) / B_r", "first_seen / B_r"))
        self.assert_only_fails(verdict, "no query tile that sees nothing is read")

    def test_the_tile_on_the_diagonal_left_out(self):
        verdict = self.judged("first_tile", ("first_seen < query_length ? first_seen / B_r :", "first_seen < query_length ? (first_seen + B_r - 1) / B_r :"))
        self.assert_says(verdict, "dV at")
