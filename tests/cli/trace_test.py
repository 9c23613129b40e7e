"""What `ladder trace` writes, as data: held against the counters of `ladder profile` and against arithmetic.

  python3 trace_test.py PATH/ladder-program
"""

import json
import math
import os
import re
import sys
import tempfile
import unittest

import traces

PROGRAM = sys.argv[1]
PHASES = range(6)


class Trace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages = {p: traces.page(PROGRAM, cls.folder.name, str(p)) for p in PHASES}
        cls.traces = {p: traces.in_page(page) for p, page in cls.pages.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def runs(self):
        for phase, trace in self.traces.items():
            for run in trace["runs"]:
                if run["verdict"] != "refused":
                    yield phase, run

    def test_format_and_version_are_named(self):
        for trace in self.traces.values():
            self.assertEqual((trace["format"], trace["version"]), ("flash-ladder-trace", 1))

    def test_every_entry_of_every_phase_is_there_and_right(self):
        entries = {run["entry"]: run["verdict"] for trace in self.traces.values() for run in trace["runs"]}
        self.assertEqual(len(entries), 11)
        self.assertEqual(entries.pop("q_blocked_attention"), "refused")  # 256 keys do not fit
        self.assertEqual(set(entries.values()), {"right"})

    def test_bytes_are_those_that_profile_counts(self):
        for phase, trace in self.traces.items():
            counted = traces.profile(PROGRAM, self.folder.name, str(phase), "--heads", "1")
            for run in trace["runs"]:
                sums = {}
                for launch in run["launches"]:
                    for block in launch["blocks"]:
                        for tensor, (read, written) in block["counters"]["tensors"].items():
                            r, w = sums.get(tensor, (0, 0))
                            sums[tensor] = r + read, w + written
                self.assertEqual(sums, counted[run["entry"]], run["entry"])

    def test_moments_add_up_to_their_block(self):
        recorded = 0
        for _, run in self.runs():
            for launch in run["launches"]:
                for block in launch["blocks"]:
                    if "moments" not in block:
                        continue
                    recorded += 1
                    counters = {t: tuple(b) for t, b in block["counters"]["tensors"].items()}
                    self.assertEqual(traces.traffic_of(launch, block["moments"]), counters, run["entry"])
                    barriers = sum("barrier" in moment for moment in block["moments"])
                    self.assertEqual(barriers, block["counters"]["barriers"], run["entry"])
        self.assertGreater(recorded, 100)

    def test_boxes_lie_inside_what_they_are_of(self):
        for _, run in self.runs():
            for launch in run["launches"]:
                for block in launch["blocks"]:
                    for moment in block.get("moments", []):
                        for memory, object_, _, site, bytes_, *box in moment.get("access", []):
                            self.assertLess(site, len(launch["sites"]))
                            self.assertGreater(bytes_, 0)
                            if memory == 0:
                                extents = launch["tensors"][object_]["extents"]
                            else:
                                tile = launch["tiles"][object_]
                                extents = [tile["rows"], tile["columns"]]
                            self.assertEqual(len(box), 2 * len(extents))
                            for d, extent in enumerate(extents):
                                self.assertLessEqual(0, box[2 * d])
                                self.assertLessEqual(box[2 * d], box[2 * d + 1])
                                self.assertLess(box[2 * d + 1], extent)

    def final_states(self, run):
        """Row -> {name: value} where there is one state a row, and row -> its scores."""
        states, scores = {}, {}
        for launch in run["launches"]:
            for block in launch["blocks"]:
                for moment in block.get("moments", []):
                    for shown in moment.get("show", []):
                        for row, column, value in traces.cells(shown):
                            if shown["name"] == "S":
                                scores.setdefault(row, {})[column] = value
                            elif column == 0:
                                states.setdefault(row, {})[shown["name"]] = value
        return states, scores

    def test_states_follow_from_the_scores(self):
        checked = 0
        for phase, run in self.runs():
            if run["entry"] in ("online_softmax", "block_softmax", "flash_decode"):  # states of parts of a row
                continue
            states, scores = self.final_states(run)
            base = 2 if phase == 4 else math.e
            for row, state in states.items():
                if row not in scores or any(name not in state for name in ("m", "l")):
                    continue
                seen = [s for s in scores[row].values() if s != -math.inf]
                m, l = state["m"], state["l"]
                self.assertTrue(traces.close(m, max(seen), 2e-3), (run["entry"], row, m, max(seen)))
                self.assertTrue(traces.close(l, sum(base ** (s - m) for s in seen), 1e-2), (run["entry"], row))
                checked += 1
        self.assertGreater(checked, 256)

    def test_causal_masks_above_the_diagonal_only(self):
        (run,) = self.traces[4]["runs"]
        _, scores = self.final_states(run)
        masked = 0
        for row, keys in scores.items():
            for key, score in keys.items():
                self.assertEqual(score == -math.inf, key > row, (row, key))
                masked += score == -math.inf
        self.assertGreater(masked, 0)
        self.assertNotIn(255, scores[0])  # tiles above the diagonal are never computed

    def test_query_tiles_share_the_rows_of_a_head(self):
        (run,) = self.traces[3]["runs"]
        (launch,) = run["launches"]
        rows = [traces_rows(launch, block) for block in launch["blocks"]]
        self.assertEqual(rows, [(0, 63), (64, 127), (128, 191), (192, 255)])

    def test_other_problems(self):
        cases = [("3", "--keys", "70", "--queries", "33", "--head-dim", "40", "--dtype", "f16", "--heads", "4", "--kv-heads", "2"),
                 ("2", "--keys", "100", "--dtype", "bf16", "--batch", "2"),
                 ("5", "--keys", "1000", "--splits", "8", "--heads", "4", "--kv-heads", "1", "--queries", "3", "--causal"),
                 ("4", "--no-causal", "--keys", "65")]
        for case in cases:
            trace = traces.trace(PROGRAM, self.folder.name, *case)
            self.assertEqual({run["verdict"] for run in trace["runs"]}, {"right"}, case)

    def test_blocks_that_were_not_chosen_are_counted_only(self):
        trace = traces.trace(PROGRAM, self.folder.name, "3", "--block", "1,3")
        (launch,) = trace["runs"][0]["launches"]
        self.assertEqual(["moments" in block for block in launch["blocks"]], [False, True, False, True])
        whole = self.traces[3]["runs"][0]["launches"][0]
        self.assertEqual(launch["counters"], whole["counters"])
        self.assertEqual(launch["blocks"][1]["moments"], whole["blocks"][1]["moments"])

    def test_one_entry_of_a_phase(self):
        trace = traces.trace(PROGRAM, self.folder.name, "0", "--kernel", "online_softmax")
        self.assertEqual([run["entry"] for run in trace["runs"]], ["online_softmax"])

    def test_beside_names_the_second_run(self):
        trace = traces.trace(PROGRAM, self.folder.name, "0", "--keys", "64", "--beside", "5 --splits 2")
        self.assertEqual(trace["runs"][trace["beside"]]["entry"], "flash_decode")
        self.assertEqual(trace["runs"][trace["beside"]]["problem"]["shapes"]["k"][2], 64)
        self.assertEqual(trace["runs"][trace["beside"]]["problem"]["splits"], 2)

    def test_pages_stay_small(self):
        for phase, page in self.pages.items():
            self.assertLess(len(page.encode()), 2 << 20, phase)
        file = f"{self.folder.name}/page.html"
        result = traces.run_program(PROGRAM, "trace", "3", "--heads", "8", "--keys", "1024", "-o", file)
        self.assertIn("the others counted", result.stdout)
        self.assertLess(os.path.getsize(file), 2 << 20)

    def test_a_page_is_one_file_that_asks_nobody(self):
        self.assertIsNone(re.search(r"(src|href)=\"(?!data:)", self.pages[5]))
        self.assertIsNone(re.search(r"https?://|@import|url\(", self.pages[5]))

    def test_same_run_same_trace_in_a_page_and_as_data(self):
        self.assertEqual(self.traces[2], traces.trace(PROGRAM, self.folder.name, "2"))


def traces_rows(launch, block):
    """First and last row of Q that a block reads."""
    rows = [box[4:6] for moment in block["moments"] for memory, object_, write, _, _, *box in moment.get("access", [])
            if memory == 0 and launch["tensors"][object_]["name"] == "Q"]
    return min(first for first, _ in rows), max(last for _, last in rows)


class HopperBackward(unittest.TestCase):
    """Phase 8 on Hopper, on two key tiles of one head: a block that has its turn at once, and one that waits for it."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            trace = traces.trace(PROGRAM, folder, "8", "--kernel", "hopper_backward", "--head-dim", "128")
        (cls.run_,) = trace["runs"]
        _, cls.launch, _ = cls.run_["launches"]
        cls.blocks = cls.launch["blocks"]

    def events(self, block, **wanted):
        """(moment, event) of a block's events with these values; `at` is the name of a barrier."""
        at = wanted.pop("at", None)
        return [(number, event) for number, moment in enumerate(self.blocks[block]["moments"]) for event in moment.get("events", [])
                if all(event.get(key) == value for key, value in wanted.items())
                and (at is None or self.launch["barriers"][event.get("barrier", 0)]["name"] == at)]

    def names(self, boxes, write):
        return {self.launch["tiles" if memory else "tensors"][object_]["name"]
                for memory, object_, writes, *_ in boxes if bool(writes) == write}

    def test_it_is_right_and_in_16_bits(self):
        self.assertEqual((self.run_["entry"], self.run_["verdict"], self.run_["problem"]["dtype"]), ("hopper_backward", "right", "float16"))

    def test_its_parties(self):
        for block in self.blocks:
            self.assertEqual([(party["name"], party["role"]) for party in block["parties"]],
                             [("warp 0 of warpgroup 0", "issues copies"), ("warp 1 of warpgroup 0", "stores"),
                              ("warpgroup 1", "multiplies, stores"), ("warpgroup 2", "multiplies, stores")])

    def test_stages_of_queries_fill_and_drain(self):
        # Of four tiles of queries block 0 has all, block 1 under its diagonal two.
        for block, steps in zip(self.blocks, (4, 2)):
            for tensor in ("Q_i", "dO_i"):
                fills = [fill for fill in block["fills"] if tensor in self.names(fill["boxes"], write=True)]
                self.assertEqual(len(fills), steps)
                for step, fill in enumerate(fills):
                    name = self.launch["barriers"][fill["barrier"]]["name"], self.launch["barriers"][fill["emptied_at"]]["name"]
                    self.assertEqual(name, (f"{tensor} full[{step % 2}]", f"{tensor} empty[{step % 2}]"))
                    self.assertLess(fill["asked"], fill["full"])
                    self.assertLess(fill["full"], fill["first_read"])
                    self.assertLessEqual(fill["last_read"], fill["released"])
                for before, fill in zip(fills, fills[2:]):
                    self.assertLess(before["released"], fill["asked"])
                self.assertLess(fills[1]["full"], fills[0]["released"])  # the next is there before it is wanted

    def test_three_of_five_products_are_under_way_at_once(self):
        for block, steps in zip(self.blocks, (4, 2)):
            for party in (2, 3):
                groups = [group for group in block["groups"] if group["party"] == party]
                self.assertEqual(len(groups), 5 * steps)
                for values, sums, keys in zip(groups[2::5], groups[3::5], groups[4::5]):
                    self.assertEqual(self.names(values["boxes"], write=False), {"dO_i"})  # P_ij^T is in registers
                    self.assertEqual(self.names(sums["boxes"], write=False), {"dS_ij^T", "K_j"})
                    self.assertEqual(self.names(keys["boxes"], write=False), {"Q_i"})
                    self.assertLess(keys["begun"], values["done"])
                    self.assertLess(keys["begun"], sums["done"])

    def test_sums_leave_under_the_products_of_the_next_step(self):
        stores = [store for store in self.blocks[0]["stores"] if store["party"] == 1]
        self.assertEqual(len(stores), 4)
        for store in stores:
            self.assertEqual((self.names(store["boxes"], False), self.names(store["boxes"], True)), ({"dQ_i"}, {"dQ sum"}))
        for store in stores[:-1]:
            self.assertTrue(any(group["begun"] < store["done"] and store["asked"] < group["done"] for group in self.blocks[0]["groups"]))

    def test_a_block_waits_for_its_turn(self):
        for tile in (3, 2):
            flag = f"turns(0, 0, {tile})"
            ((released, _),) = self.events(0, kind="arrive", at=flag)
            ((_, wait),) = self.events(1, kind="wait", at=flag)
            self.assertEqual((wait["number"], wait["until"]), (0, released + 1))
            ((again, event),) = self.events(1, kind="arrive", at=flag)
            self.assertEqual(event["number"], 1)
            (store,) = [store for store in self.blocks[1]["stores"] if store["party"] == 1 and wait["until"] <= store["asked"] < again]
            self.assertLessEqual(store["done"], again)  # the sums are there before the next key tile is let in
        self.assertEqual(self.events(0, kind="wait", at="turns(0, 0, 3)"), [])
        # At its first tile it waits longest; from then on it keeps its distance.
        waited = [wait["until"] - moment for moment, wait in self.events(1, kind="wait")
                  if self.launch["barriers"][wait["barrier"]]["name"].startswith("turns")]
        self.assertGreater(waited[0], waited[1])


class Refusals(unittest.TestCase):
    def refused(self, *arguments, says):
        result = traces.run_program(PROGRAM, "trace", *arguments)
        self.assertNotEqual(result.returncode, 0, arguments)
        for word in says:
            self.assertIn(word, result.stderr, arguments)

    def test_bad_calls(self):
        self.refused(says=["PHASE"])
        self.refused("99", says=["PHASE"])
        self.refused("3", "--splits", "2", says=["--splits", "phase 5"])
        self.refused("0", "--kernel", "fa2_forward", says=["--kernel", "safe_softmax", "online_attention"])
        self.refused("8", "--kernel", "fa2_forward", says=["plain_backward_atomics", "hopper_backward"])
        self.refused("8", "--kernel", "hopper_backward", "--dtype", "f32", says=["for float32", "plain_backward"])
        self.refused("2", "--beside", "12", says=["--beside", "12"])
        self.refused("2", "--beside", "3 --colour", says=["--beside", "--colour"])
        self.refused("3", "--keys", "32", "-o", "/no/such/folder/x.html", says=["/no/such/folder/x.html"])
        self.refused("3", "--device", "cuda", says=["--device"])
        self.refused("3", "--keys", "32", "--block", "7", says=["--block", "fa2_forward", "0 to 0"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
