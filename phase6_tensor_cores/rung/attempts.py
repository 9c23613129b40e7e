"""Attempts at the exercises of phase 6, and what the judge says to them; run by tests/classroom/attempts_test.py."""

from attempt import Attempt

EIGHT, FOUR = "rows of 8 pieces: no bank conflict", "rows of 4 pieces: no bank conflict"
PLACES = "piece ^ exchanged"


class Attempts(Attempt):
    # --- addresses ---

    def test_keys_in_the_order_of_queries(self):
        verdict = self.judged("addresses", ("lane % 8 + lane / 16 * 8, column, lane / 8 % 2 * 8", "lane % 16, column, lane / 16 * 8"))
        self.assert_says(verdict, mistake="phase6_tensor_cores/exercises/keys_rows_first")

    def test_queries_in_the_order_of_keys(self):
        verdict = self.judged("addresses", ("return piece(row, lane % 16, column, lane / 16 * 8)",
                                            "return piece(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2 * 8)"))
        self.assert_says(verdict, mistake="phase6_tensor_cores/exercises/queries_columns_first")

    def test_each_has_the_others_order(self):
        verdict = self.judged("addresses",
                              ("return piece(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2 * 8)", "return two(row, lane, column)"),
                              ("return piece(row, lane % 16, column, lane / 16 * 8)",
                               "return piece(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2 * 8)"),
                              ("return two(row, lane, column)", "return piece(row, lane % 16, column, lane / 16 * 8)"))
        self.assert_says(verdict, mistake="phase6_tensor_cores/exercises/queries_columns_first")

    def test_addresses_of_what_a_lane_gets(self):
        # A lane passes the row that it will hold a part of, row lane / 4, and not the row whose number it has.
        verdict = self.judged("addresses", ("return piece(row, lane % 16, column", "return piece(row, lane / 4, column"))
        self.assert_says(verdict, "one tile")

    # --- maxima ---

    def test_a_maximum_for_each_lane(self):
        verdict = self.judged("maxima", ("max_over<4>(largest)", "largest"))
        self.assert_says(verdict, mistake="phase6_tensor_cores/exercises/maximum_of_a_lane")

    def test_a_lane_has_both_rows(self):
        verdict = self.judged("maxima", ("fmaxf(S_ij[m][n].element[2 * h], S_ij[m][n].element[2 * h + 1])",
                                         "fmaxf(S_ij[m][n].element[h], S_ij[m][n].element[h + 2])"))
        self.assertFalse(verdict.passed)

    def test_the_maximum_unscaled(self):
        verdict = self.judged("maxima", ("max_over<4>(largest) * scale.exponent", "max_over<4>(largest)"))
        self.assert_says(verdict, "")

    def test_O_left_as_it_is(self):
        verdict = self.judged("maxima", ("O_i[m][c].element[2 * h] *= rescale;", ";"), ("O_i[m][c].element[2 * h + 1] *= rescale;", ";"))
        self.assert_says(verdict, "several tiles", "LSE is right", mistake="phase3_fa2/O_not_rescaled")

    def test_nobody_says_that_a_maximum_has_risen(self):
        verdict = self.judged("maxima", ("risen |= m_new[m][h] != m_i[m][h];", ""))
        self.assert_says(verdict, "one tile", mistake="phase3_fa2/maximum_not_carried_over")

    # --- find the swizzle ---

    def test_any_arrangement_without_conflicts_passes(self):
        for arrangement in ("(piece + (Pieces == 8 ? row : row / 2)) % Pieces", "piece ^ (7 - exchanged) % Pieces",
                            "(3 * piece + exchanged) % Pieces"):
            with self.subTest(arrangement):
                self.assertTrue(self.verdict("find_the_swizzle", (PLACES, arrangement)).passed)
        # Rows need not stay together either: pieces of one number side by side, in groups of eight rows.
        elsewhere = ("return row * Pieces + (piece ^ exchanged)",
                     "return row / 8 * 8 * Pieces + piece * 8 + (row + 8 / Pieces * piece) % 8")
        self.assertTrue(self.verdict("find_the_swizzle", elsewhere).passed)

    def test_four_pieces_exchanged_by_the_row(self):
        verdict = self.judged("find_the_swizzle", ("Pieces == 8 ? row % 8 : row / 2 % 4", "row % Pieces"))
        self.assert_only_fails(verdict, FOUR)
        self.assert_says(verdict, "wavefronts counted", "allowed")

    def test_two_pieces_in_one_place(self):
        verdict = self.judged("find_the_swizzle", (PLACES, "(piece | exchanged)"))
        self.assert_says(verdict, "race")

    def test_rows_that_are_padded(self):
        verdict = self.judged("find_the_swizzle", ("return row * Pieces + (piece ^ exchanged)", "return row * (Pieces + 1) + piece"))
        self.assert_says(verdict, "outside")

    # --- fetched too early ---

    def test_a_warp_waits_for_itself_alone(self):
        verdict = self.judged("fetched_too_early", ("        fetch(j + 1);", "        __syncwarp();\n        fetch(j + 1);"), begin="start")
        self.assert_says(verdict, "several tiles", "K_j(", "still filling")  # by another warp

    def test_a_barrier_of_its_own_before_the_copy(self):
        begun = ("        fetch(j + 1);", "        __syncthreads();\n        fetch(j + 1);")
        self.assertTrue(self.verdict("fetched_too_early", begun, begin="start").passed)

    def test_the_copy_behind_the_barrier_and_the_wait_as_it_was(self):
        verdict = self.judged("fetched_too_early", ("simt::wait_copies<0>();\n        __syncthreads();  // K_j, V_j are complete",
                                                    "simt::wait_copies<1>();\n        __syncthreads();  // K_j, V_j are complete"))
        self.assert_says(verdict, "still filling")

    # --- two terms ---

    def test_what_is_left_is_taken_for_the_weight(self):
        verdict = self.judged("two_terms", ("left.element[e] -= float(T(left.element[e]));", ""),
                              ("right.element[e] -= float(T(right.element[e]));", ""))
        self.assert_says(verdict, "LSE is right")

    def test_only_the_left_keys(self):
        verdict = self.judged("two_terms", ("right.element[e] -= float(T(right.element[e]));", "right.element[e] = 0;"))
        self.assert_says(verdict, "values that cancel", "LSE is right")

    def test_values_read_twice(self):
        verdict = self.judged("two_terms", ("simt::mma_m16n8k16(O_i[0][c + side], low, v[side]);", ""),
                              ("            }\n        }\n    }\n", """            }
            for (int c = 0; c < D / 8; c += 2) {
                simt::FragmentB<T> v[2];
                simt::ldmatrix_trans(v, V_j.block(16 * k, 8 * c));
                for (int side = 0; side < 2; ++side) simt::mma_m16n8k16(O_i[0][c + side], low, v[side]);
            }
        }
    }
"""))
        self.assert_only_fails(verdict, "each fragment of V_j read once")
