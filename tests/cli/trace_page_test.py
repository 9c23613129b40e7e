"""The page that `ladder trace` writes, in a headless Chromium: its numbers are the run's own, and its controls work.

  python3 trace_page_test.py PATH/ladder-program PATH/trace_wrong_kernel PATH/trace_ring_kernel

Exits with 77, and says what is missing, where Chromium or its driver are not installed.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "site"))
import traces
import webdriver

PROGRAM, WRONG_KERNEL, RING_KERNEL = sys.argv[1:4]

COUNTERS = """
const rows = panes[arguments[0]].element.querySelectorAll("[data-counter]");
return Object.fromEntries([...rows].map(r => [r.dataset.counter, [Number(r.dataset.read), Number(r.dataset.written)]]));
"""


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = webdriver.Browser(1300, 1000)
        cls.pages = {}

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def tearDown(self):
        self.browser.resize(1300, 1000)
        said = [entry["message"] for entry in self.browser.console()]
        self.assertEqual(said, [])
        elsewhere = [url for url, _ in self.browser.requests() if not url.startswith(("file:", "data:", "about:"))]
        self.assertEqual(elsewhere, [])

    def page(self, *arguments):
        """Address of the page of such a trace."""
        if arguments not in self.pages:
            file = os.path.join(self.folder.name, f"{len(self.pages)}.html")
            result = traces.run_program(PROGRAM, "trace", *arguments, "-o", file)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.pages[arguments] = pathlib.Path(file).as_uri()
        return self.pages[arguments]

    def visit(self, url, moment=""):
        self.browser.visit("about:blank")  # another fragment alone would not load the page anew
        self.browser.visit(url + moment)

    def text(self, selector):
        return self.browser.run("return document.querySelector(arguments[0]).textContent", selector)

    def press(self, key, shift=False):
        self.browser.run("dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], shiftKey: arguments[1]}))", key, shift)

    def counters(self, pane=0):
        return {name: tuple(bytes_) for name, bytes_ in self.browser.run(COUNTERS, pane).items()}

    def test_at_the_end_the_bytes_are_the_runs(self):
        for phase in range(6):
            url = self.page(str(phase))
            counted = traces.profile(PROGRAM, self.folder.name, str(phase), "--heads", "1")
            self.visit(url)
            entries = self.browser.run("return TRACE.runs.map(run => run.entry)")
            self.assertEqual(set(entries), set(counted))
            for number, entry in enumerate(entries):
                if not counted[entry]:
                    self.visit(url, f"#a={number}")
                    self.assertIn("It did not run", self.text(".diagnosis h3"))
                    continue
                for order in ("together", "single"):
                    self.visit(url, f"#a={number}&s=99999&order={order}")
                    shown = self.counters()
                    shown.pop("shared memory")
                    total = shown.pop("global memory")
                    self.assertEqual(shown, counted[entry], (entry, order))
                    self.assertEqual(total, tuple(map(sum, zip(*counted[entry].values()))))

    def test_on_the_way_they_are_those_of_the_moments_so_far(self):
        trace = traces.trace(PROGRAM, self.folder.name, "3")
        (launch,) = trace["runs"][0]["launches"]
        url = self.page("3")
        for step in (0, 3, 17):
            self.visit(url, f"#a=0&s={step}")
            so_far = traces.traffic_of(launch, [m for block in launch["blocks"] for m in block["moments"][:step + 1]])
            shown = self.counters()
            for tensor, bytes_ in so_far.items():
                self.assertEqual(shown[tensor], bytes_, (step, tensor))
            self.assertEqual(shown["global memory"], tuple(map(sum, zip(*so_far.values()))))
            barriers = sum("barrier" in m for block in launch["blocks"] for m in block["moments"][:step + 1])
            self.assertEqual(self.text(".barriers"), f"barriers {barriers} of {launch['counters']['barriers']}")

    def test_back_is_forth(self):
        url = self.page("4")
        self.visit(url, "#a=0&s=9")
        there = self.counters(), self.text(".numbers"), self.text(".what")
        self.press("End")
        self.assertNotEqual(self.counters(), there[0])
        for _ in range(40):
            self.press("ArrowLeft")
        self.assertTrue(self.text("#position").startswith("step 1 of"))
        for _ in range(9):
            self.press("ArrowRight")
        self.assertEqual((self.counters(), self.text(".numbers"), self.text(".what")), there)

    def test_a_row_has_the_state_that_the_trace_shows(self):
        trace = traces.trace(PROGRAM, self.folder.name, "3")
        (launch,) = trace["runs"][0]["launches"]
        row, block, step = 140, 2, 16
        state = {}
        for moment in launch["blocks"][block]["moments"][:step + 1]:
            for shown in moment.get("show", []):
                for r, column, value in traces.cells(shown):
                    if r == row and shown["name"] != "S":
                        state[shown["name"]] = value
        self.visit(self.page("3"), f"#a=0&s={step}&x={block}&r={row}")
        self.assertIn(f"row {row}", self.text(".numbers"))
        for name, value in state.items():
            text = self.text(f"[data-state={name}] b").replace("−", "-")
            self.assertTrue(traces.close(float(text), value, 1e-3), (name, text, value))
        self.assertEqual(set(state), {"m", "l", "rescale"})

    def test_masked_and_never_computed_differ(self):
        self.visit(self.page("4"), "#a=0&s=99999&x=3")
        score = lambda row, key: self.browser.run("return panes[0].scoreAt(arguments[0], arguments[1])", row, key)
        self.assertIn("−∞", score(0, 5))
        self.assertIn("not computed", score(0, 255))
        self.assertRegex(score(200, 100), r"query 200, key 100: −?\d")
        pixels = self.browser.run("""
            const canvas = panes[0].part(".all"), {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return arguments[0].map(([row, key]) => data.slice(4 * (row * canvas.width + key), 4 * (row * canvas.width + key) + 3).join());
            """, [[0, 255], [200, 100], *([0, key] for key in range(8, 16))])
        self.assertEqual(len(set(pixels[:2])), 2)
        self.assertEqual(len(set(pixels[2:])), 2, "hatching has two colours")
        self.assertEqual(len(set(pixels)), 4)

    def test_the_address_names_the_moment(self):
        url = self.page("3")
        self.visit(url, "#a=0&s=12&x=2&r=150")
        self.assertTrue(self.text("#position").startswith("step 13 of"))
        self.assertIn("block (2, 0, 0)", self.text(".what"))
        self.press("ArrowRight")
        self.press("ArrowDown")
        self.press("]")
        self.press("o")
        self.press("d")
        words = (self.text(".what"), self.text(".numbers"), self.text("#position"), self.counters())
        address = self.browser.run("return location.href")
        self.assertIn("order=single", address)
        self.assertIn("theme=", address)
        self.browser.visit("about:blank")
        self.browser.visit(address)
        self.assertEqual((self.text(".what"), self.text(".numbers"), self.text("#position"), self.counters()), words)

    def test_keys(self):
        self.visit(self.page("3"), "#a=0&s=0")
        self.press("ArrowRight", shift=True)
        self.assertIn("then __syncthreads()", self.text(".where"))
        self.press("End")
        self.assertEqual(*self.text("#position").removeprefix("step ").split(" of "))
        self.press("Home")
        self.assertTrue(self.text("#position").startswith("step 1 of"))
        self.press("?")
        self.assertFalse(self.browser.run("return document.getElementById('help').hidden"))
        speed = self.browser.run("return ui.speed")
        self.press("+")
        self.assertEqual(self.browser.run("return ui.speed"), 2 * speed)

    def test_it_plays_and_pauses(self):
        self.visit(self.page("3"), "#a=0&s=0&speed=32")
        self.press(" ")
        deadline = time.monotonic() + 20
        while int(self.text("#position").split()[1]) < 10 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.press(" ")
        position = self.text("#position")
        self.assertGreaterEqual(int(position.split()[1]), 10)
        time.sleep(0.3)
        self.assertEqual(self.text("#position"), position)

    def test_a_step_is_drawn_in_a_moment(self):
        self.visit(self.page("2", "--beside", "3"))
        step, sums = self.browser.run("""
            const taken = work => {
              const begin = performance.now();
              window.kept = work();  // or it might be left out
              return performance.now() - begin;
            };
            const million = () => {
              let sum = 0;
              for (let i = 0; i < 1e6; ++i) sum += Math.sin(i);
              return sum;
            };
            const draw = s => {
              seek(s);
              document.body.offsetHeight;
            };
            const steps = [], sums = [];  // in turn: a machine busy with other work slows both down alike
            for (let s = 0; s < length(); ++s) {
              steps.push(taken(() => draw(s)));
              sums.push(taken(million));
            }
            const median = times => times.sort((a, b) => a - b)[times.length >> 1];
            return [median(steps), median(sums)];""")
        self.assertLess(step, 9 * sums, "milliseconds, of two runs side by side, and of 9 million sines (60 ms idle)")

    def test_two_runs_go_in_step(self):
        self.visit(self.page("2", "--beside", "3"))
        self.assertEqual(self.browser.run("return panes.length"), 2)
        self.press("ArrowRight")
        self.press("ArrowRight")
        self.assertEqual(self.browser.run("return panes.map(p => p.playback.at)"), [2, 2])
        self.press("End")
        ends = self.browser.run("return panes.map(p => [p.playback.at, p.playback.steps.length - 1])")
        self.assertTrue(all(at == last for at, last in ends), ends)
        counted = traces.profile(PROGRAM, self.folder.name, "2", "3", "--heads", "1")
        for pane, entry in enumerate(("fa1_forward", "fa2_forward")):
            shown = self.counters(pane)
            self.assertEqual({t: shown[t] for t in counted[entry]}, counted[entry])

    def test_one_split_beside_eight(self):
        self.visit(self.page("5", "--keys", "1024", "--splits", "1", "--beside", "5 --splits 8"))
        steps = self.browser.run("return panes.map(p => p.playback.steps.length)")
        self.assertGreater(steps[0], 2 * steps[1])
        self.press("End")
        self.assertEqual(self.counters(0)["K"], self.counters(1)["K"])

    def test_a_wrong_kernel_opens_at_its_moment(self):
        file = os.path.join(self.folder.name, "wrong.html")
        said = subprocess.run([WRONG_KERNEL, file], capture_output=True, text=True, check=True).stdout
        self.visit(pathlib.Path(file).as_uri())
        self.assertIn("here the machine objects", self.text(".what"))
        self.assertEqual(self.text(".diagnosis pre").strip(), said.strip())
        self.assertIn("K_j(", said)
        circle = self.browser.run("return document.querySelector('[data-tile=K_j] circle.fault') !== null")
        self.assertTrue(circle)
        here = self.text("#position")
        self.press("Home")
        self.assertNotEqual(self.text("#position"), here)
        self.press("e")
        self.assertEqual(self.text("#position"), here)
        self.assertIn("computes S", self.text(".what"))

    def test_a_wrong_result_is_played_to_its_end(self):
        file = os.path.join(self.folder.name, "result.html")
        subprocess.run([WRONG_KERNEL, file, "result"], capture_output=True, text=True, check=True)
        self.visit(pathlib.Path(file).as_uri())
        self.assertEqual(self.text(".verdict"), "wrong, error 2.5e-1, allowed 1.0e-6")
        self.assertEqual(self.text(".diagnosis h3"), "Not what the reference gives")
        self.assertIn("1 of 64 elements wrong", self.text(".diagnosis pre"))
        self.assertEqual(self.browser.run("return document.querySelectorAll('circle.fault').length"), 0)
        self.press("End")
        self.assertEqual(self.counters()["K"], (64 * 4 * 4, 0))

    def visit_ring(self, moment=""):
        if not hasattr(type(self), "ring"):
            type(self).ring = os.path.join(self.folder.name, "ring.html")
            subprocess.run([RING_KERNEL, self.ring], capture_output=True, text=True, check=True)
        self.visit(pathlib.Path(self.ring).as_uri(), moment)

    def strip(self, name, selector="rect[data-site]"):
        """Title, left end and right end, in moments, of what a strip shows."""
        return self.browser.run("""
            const svg = document.querySelector(".strips svg"), each = Number(svg.querySelector(".now").getAttribute("width"));
            const labels = Number(svg.querySelector(".under").getAttribute("width")) + 3;
            return [...svg.querySelectorAll(`[data-strip="${arguments[0]}"] ${arguments[1]}`)].map(r => {
              const left = (Number(r.getAttribute("x")) - labels) / each;
              return [r.querySelector("title").textContent, Math.round(left), Math.round(left + Number(r.getAttribute("width")) / each)];
            });""", name, selector)

    def test_a_stage_fills_is_full_is_read_and_is_free(self):
        self.visit_ring()
        fill = self.browser.run("const {asked, full, first_read, released} = TRACE.runs[0].launches[0].blocks[0].fills[0];"
                                "return {asked, full, first_read, released}")
        seen = [(title.split(", ")[-1], first, end) for title, first, end in self.strip("full[0]") if "phase 0" in title]
        self.assertEqual([state for state, *_ in seen], ["is filling", "is being read"])
        self.assertEqual(seen[0][1:], (fill["asked"], fill["full"] + 1))
        self.assertEqual(seen[1][1:], (fill["first_read"], fill["released"] + 1))
        states = [title.split(", ")[-1] for title, *_ in self.strip("full[1]")]
        self.assertEqual(states, ["is filling", "is full", "is being read", "is filling", "is being read"])
        self.assertIn("K 64…127, 8.0 KiB: phase 0 of full[1]", self.strip("full[1]")[0][0])
        places = lambda step: [self.browser.run("seek(arguments[0]); return panes[0].stagesOf(panes[0].blockShown(), arguments[1]).map(p => p[1])", step, tile)
                               for tile in self.browser.run("return TRACE.runs[0].launches[0].tiles.flatMap((t, i) => t.name === 'K_j' ? [i] : [])")]
        self.assertEqual(places(fill["asked"]), [["filling", "filling"]])
        self.assertEqual(places(fill["first_read"]), [["read", "full"]])

    def test_parties_products_and_stores_have_strips(self):
        self.visit_ring()
        names = self.browser.run("return [...document.querySelectorAll('[data-strip]')].map(s => s.dataset.strip)")
        self.assertEqual(names, ["warpgroup 0", "warp 4", "full[0]", "full[1]", "products of warpgroup 0", "stores of warpgroup 0", "barrier 1"])
        products = self.strip("products of warpgroup 0")
        self.assertEqual(len(products), 4)
        self.assertIn("group 1: 4 products under way, read K_j[64…127, :]", products[1][0])
        self.assertEqual([end - first for _, first, end in products], [1] * 4)
        self.assertIn("O_i[:, :]", self.strip("stores of warpgroup 0")[0][0])
        waits = self.strip("warp 4", "rect.waits")
        self.assertRegex(waits[0][0], r"waits at empty\[0\] for phase 0; goes on in moment \d+")
        self.assertEqual(self.text("[data-strip='barrier 1'] .opens title"), f"barrier 1: opening 1 is over, in moment {self.opening()}")

    def opening(self):
        return 1 + self.browser.run("""return TRACE.runs[0].launches[0].blocks[0].moments.findIndex(
            m => m.events.some(e => e.kind === "over" && TRACE.runs[0].launches[0].barriers[e.barrier].name === "barrier 1"))""")

    def test_an_event_shows_its_line(self):
        self.visit_ring("#s=1")
        self.assertIn("warp 4 asks for copies", self.text(".what"))
        self.assertIn("simt::tma_load(", self.text(".source .here"))  # the source follows the steps
        line = "return [...document.querySelectorAll('.events li')].find(l => l.textContent.includes(arguments[0]))"
        self.browser.run(line + ".click()", "announces 8.0 KiB")
        self.assertIn("arrive_expecting(kTileBytes)", self.text(".source .here"))
        self.assertRegex(self.text(".source-name"), r"^trace/ring_kernel\.cpp:\d+$")
        self.assertTrue(self.browser.run("const box = document.querySelector('.source'), here = box.querySelector('.here');"
                                         "return here.offsetTop >= box.scrollTop && here.offsetTop < box.scrollTop + box.clientHeight"))
        self.press("ArrowRight")
        self.assertNotIn("arrive_expecting", self.text(".source .here"))

    def test_a_click_on_a_strip_goes_to_its_moment_and_its_line(self):
        self.visit_ring("#s=0")
        self.browser.run("""
            const r = document.querySelectorAll("[data-strip='products of warpgroup 0'] rect")[2], box = r.getBoundingClientRect();
            r.dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 2}));""")
        moment = self.strip("products of warpgroup 0")[2][1]
        self.assertTrue(self.text("#position").startswith(f"step {moment + 1} of"))
        self.assertIn("simt::multiply(S", self.text(".source .here"))
        self.press("ArrowLeft")
        self.assertTrue(self.text("#position").startswith(f"step {moment} of"))

    def test_strips_stay_in_view_and_follow_the_steps(self):
        self.browser.resize(1300, 700)
        self.visit_ring("#s=3")
        now = "return Number(document.querySelector('.strips .now').getAttribute('x'))"
        before = self.browser.run(now)
        self.press("ArrowRight")
        self.assertGreater(self.browser.run(now), before)
        self.browser.run("scrollTo(0, 400)")
        top, bottom = self.browser.run("const b = document.querySelector('.strips').getBoundingClientRect(); return [b.top, b.bottom]")
        self.assertGreaterEqual(top, 0)
        self.assertLess(bottom, 500)
        self.browser.resize(390, 844)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)

    def test_where_an_element_lies_in_a_swizzled_tile(self):
        self.visit_ring()
        text = self.browser.run("return placeText(TRACE.runs[0].launches[0].tiles.find(t => t.name === 'K_j'), 67, 17)")
        # Row 67 is row 3 of eight: piece 2 goes to place 2 ^ 3 = 1. 67 rows of 128 bytes, 16 of a piece, 2 of an element.
        self.assertEqual(text, f"K_j(67, 17): piece 2 of its row lies in place 1, byte {67 * 128 + 16 + 2} of shared memory")

    def test_blocks_of_a_cluster_stand_one_below_the_other(self):
        file = os.path.join(self.folder.name, "cluster.html")
        subprocess.run([RING_KERNEL, file, "cluster"], capture_output=True, text=True, check=True)
        self.visit(pathlib.Path(file).as_uri(), "#s=4")
        names = self.browser.run("return [...document.querySelectorAll('[data-strip]')].map(s => s.dataset.strip)")
        of_each = ["warp 0", "warp 1", "warp 2", "full[0]", "the cluster's barrier"]
        self.assertEqual(names, [f"{rank}: {name}" for rank in (0, 1) for name in of_each])
        across = self.browser.run("return [...document.querySelectorAll('.across title')].map(t => t.textContent)")
        copies = [title for title in across if title.startswith("asks for K")]
        self.assertEqual(len(copies), 8)
        self.assertIn("asks for K[32…63, :] to K_j[32…63, :], 4.0 KiB, which report to full[0] of block 0 of the cluster, phase 0", copies)
        self.assertIn("arrives at empty[0] of block 1 of the cluster, phase 0: 32 arrivals", across)
        events = self.browser.run("return TRACE.runs[0].launches[0].blocks[1].moments.flatMap(m => m.events)"
                                  ".filter(e => e.party === undefined && e.block !== undefined).map(e => eventText(TRACE.runs[0].launches[0], e))")
        self.assertIn("block 0 of the cluster arrives at empty[0], phase 0: 64 arrivals", events)
        self.assertIn("block 0 of the cluster asks for K[0…31, :] to K_j[0…31, :], 4.0 KiB, which report to full[0], phase 0", events)

    def test_a_flag_has_a_strip_and_words_of_its_own(self):
        url = self.page("8", "--kernel", "hopper_backward", "--head-dim", "128")
        self.visit(url, "#a=0&s=20&x=1")
        title, first, end = next(wait for wait in self.strip("warp 1 of warpgroup 0", "rect.waits") if "turns" in wait[0])
        self.assertRegex(title, r"^waits at turns\(0, 0, 3\) for release 1; goes on in moment \d+$")
        self.assertEqual(int(title.split()[-1]), end + 1)
        marks = self.browser.run("return [...document.querySelectorAll(\"[data-strip='turns(0, 0, 3)'] .opens title\")].map(t => t.textContent)")
        self.assertRegex(marks[0], rf"^turns\(0, 0, 3\): release 1 is there, in moment {end}$")
        self.assertRegex(marks[1], r"^turns\(0, 0, 3\): release 2 is there, in moment \d+$")
        released = int(marks[1].split()[-1])
        self.browser.run("const block = panes[0].blockShown(); panes[0].toMoment(block, arguments[0])", released - 1)
        self.assertIn("releases turns(0, 0, 3): release 2", self.text(".events"))
        self.assertIn("LSE as a power of 2 192…255", self.strip("Q_i full[0]")[-1][0])

    def test_kernels_without_parties_have_no_strips(self):
        self.visit(self.page("3"), "#a=0&s=3")
        self.assertTrue(self.browser.run("return document.querySelector('.parties-card').hidden && document.querySelector('.events-card').hidden"))

    def test_dark_and_light(self):
        papers = []
        for scheme in ("dark", "light"):
            self.browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.visit(self.page("3"))
            papers.append(self.browser.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(papers, ["rgb(21, 23, 27)", "rgb(251, 250, 247)"])
        self.press("d")
        self.assertEqual(self.browser.run("return getComputedStyle(document.body).backgroundColor"), papers[0])

    def test_a_phone_is_wide_enough(self):
        self.browser.resize(390, 844)
        for arguments in (("3",), ("2", "--beside", "3"), ("0",)):
            self.visit(self.page(*arguments), "#a=0&s=20")
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390, arguments)

    def test_another_version_is_refused_in_words(self):
        path = pathlib.Path(self.page("5").removeprefix("file://"))
        other = path.with_name("other.html")
        text = path.read_text()
        self.assertEqual(text.count('"version":1'), 1)
        other.write_text(text.replace('"version":1', '"version":2'))
        self.visit(other.as_uri())
        self.assertIn("version 2", self.text("#panes"))


if __name__ == "__main__":
    if webdriver.missing():
        print(f"NOT RUN: trace_page: {' and '.join(webdriver.missing())} not found: apt-get install chromium chromium-driver")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
