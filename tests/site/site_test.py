"""Builds the site and visits every page of it in a headless Chromium: formulas drawn, nothing on the console, nothing missing,
nothing asked of a network, no page heavier than it may be, none wider than a phone; and searches it.

  python3 site_test.py REPOSITORY OUTPUT        OUTPUT/html is where the site is built

Where LADDER_SITE_IS_BUILT is set, `./ladder docs` has just built it there, and it is only visited.
Exits with 77, and says what is missing, where Chromium, its driver or what the site is made with are not installed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

import webdriver

REPOSITORY, OUTPUT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(REPOSITORY / "tests"))

import share  # noqa: E402

SITE = OUTPUT / "html"
PHONE, DESKTOP = (390, 844), (1280, 900)

HEAVIEST = 300 * 1024  # bytes that a page loads before its reader scrolls or clicks, as they are in the folder
# How many formulas the page has, and what is wrong with them.
FORMULAS = r"""
const wrong = [], formulas = [...document.querySelectorAll('math')];
const undrawn = formulas.filter(e => !e.closest('details:not([open])') && !(e.getBoundingClientRect().width > 0));
if (undrawn.length) wrong.push(`${undrawn.length} of ${formulas.length} formulas not drawn: ${undrawn[0].textContent}`);
document.querySelectorAll('merror').forEach(e => wrong.push('not understood: ' + e.textContent));
const letter = document.querySelector('math mi');
if (letter && !document.fonts.check('16px Formulas', letter.textContent)) wrong.push('the font of the formulas is not loaded');
const texts = document.createTreeWalker(document.querySelector('.contents') || document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = texts.nextNode());)
    if (/\\\(|\\\[|\\f[$\[]/.test(node.data) && !node.parentElement.closest('script, style, pre, code, .fragment'))
        wrong.push('left as text: ' + node.data.trim().slice(0, 80));
return [formulas.length, wrong];
"""
# Names of what stands out to the right of the page, unless something around it scrolls.
TOO_WIDE = r"""
const width = document.documentElement.clientWidth, wide = [];
const scrolls = e => e && (/(auto|scroll|hidden)/.test(getComputedStyle(e).overflowX) && e !== document.body
                           || scrolls(e.parentElement));
document.querySelectorAll('div.contents *').forEach(e => {
    const box = e.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1 && !scrolls(e)) wide.push(`${e.tagName}.${e.className} to ${Math.round(box.right)}`);
});
return wide.slice(0, 3);
"""

# Beginnings of the longest lines of code boxes that do not fit.
CODE_THAT_SCROLLS = r"""
document.querySelectorAll('details').forEach(e => e.open = true);
return [...document.querySelectorAll('div.contents .fragment')].filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.split('\n').reduce((a, b) => a.length > b.length ? a : b).trim().slice(0, 70));
"""

# The places that a search for the words finds: [heading, page, address].
SEARCH = r"""
const [words, done] = arguments, field = document.getElementById('query'), count = document.getElementById('count');
count.textContent = '';
field.focus();
field.value = words;
field.dispatchEvent(new Event('input'));
const wait = () => count.textContent ? done([...document.querySelectorAll('#found li')].map(e => [
    e.querySelector('a').textContent, e.querySelector('.page')?.textContent ?? '', e.querySelector('a').getAttribute('href')])) : setTimeout(wait, 20);
wait();
"""


def problems_of(browser, page):
    """What a visitor of the page meets, a line each; and how many formulas there are."""
    browser.visit(page.as_uri())
    browser.run_async("document.fonts.ready.then(() => arguments[arguments.length - 1]())")
    formulas, found = browser.run(FORMULAS)
    found += [f"console: {entry['message']}" for entry in browser.console() if entry["level"] in ("SEVERE", "WARNING")]
    loaded = {}
    for url, failed in browser.requests():
        if url.startswith("file:") and not failed:
            file = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
            loaded[file] = file.stat().st_size
        if failed:
            found.append(f"could not load {url}")
        elif not url.startswith(("file:", "data:", "blob:", "chrome")):
            found.append(f"asked the network for {url}")
    # The list of all that a namespace has grows with the reference, and is nobody's first page.
    if sum(loaded.values()) > HEAVIEST and not page.name.startswith("namespace"):
        heavy = sorted(loaded, key=loaded.get, reverse=True)[:5]
        found.append(f"loads {sum(loaded.values()) // 1024} KiB, of {HEAVIEST // 1024} allowed: "
                     + ", ".join(f"{file.name} {loaded[file] // 1024}" for file in heavy))
    return formulas, found


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if "LADDER_SITE_IS_BUILT" not in os.environ:
            built = subprocess.run([sys.executable, REPOSITORY / "common/site/build.py", "--output", OUTPUT], capture_output=True, text=True)
            if built.returncode != 0:
                raise AssertionError(f"the site was not built:\n{built.stdout}{built.stderr}")
        cls.pages = sorted(SITE.glob("*.html"))
        sys.path.insert(0, str(REPOSITORY / "common/site"))
        import pages
        cls.book = [SITE / pages.html_file(page) for page in pages.all_pages()]

    def test_every_page_on_a_desktop(self):
        """Of the reference, which one template makes, the longest and some; all of it, or a part, for `./ladder test --all`."""
        self.assertGreater(len(self.pages), 100)
        reference = sorted(set(self.pages) - set(self.book), key=lambda page: page.stat().st_size)
        formulas = {}
        with webdriver.Browser(*DESKTOP) as browser:
            for page in [*self.book, *share.sample(reference[:-10]), *reference[-10:]]:
                with self.subTest(page.name):
                    formulas[page], found = problems_of(browser, page)
                    self.assertEqual(found, [])
                    if page in self.book:
                        self.assertEqual(browser.run(CODE_THAT_SCROLLS), [])
        for page in self.book:  # what the page's text has, the browser has seen
            self.assertEqual(formulas[page], page.read_text().count("<math"), page.name)
        self.assertGreater(sum(formulas.values()), 800)

    def test_the_book_on_a_phone_in_the_dark(self):
        with webdriver.Browser(*PHONE, dark=True) as browser:
            for page in self.book:
                with self.subTest(page.name):
                    self.assertEqual(problems_of(browser, page)[1], [])
                    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
                    self.assertEqual(browser.run(TOO_WIDE), [])

    def test_every_page_names_the_licences(self):
        for page in self.pages:
            with self.subTest(page.name):
                self.assertRegex(page.read_text(), r'Code: <a href="[^"]+">MIT</a>. Chapters and figures: <a href="[^"]+">CC BY 4.0</a>')

    def test_dark_and_light(self):
        brightness = {}
        for dark in (False, True):
            with webdriver.Browser(*DESKTOP, dark=dark) as browser:
                browser.visit((SITE / "index.html").as_uri())
                colours = browser.run("return ['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])")
                brightness[dark] = [sum(int(part) for part in colour[colour.index("(") + 1:-1].split(",")[:3]) for colour in colours]
        self.assertGreater(brightness[False][1], brightness[False][0] + 300)
        self.assertGreater(brightness[True][0], brightness[True][1] + 300)

    def test_runs_are_loaded_where_the_reader_comes(self):
        with webdriver.Browser(*DESKTOP) as browser:
            for page in self.book:
                if "traces/" not in page.read_text():
                    continue
                with self.subTest(page.name):
                    browser.visit(page.as_uri())
                    browser.requests()
                    browser.run("document.querySelector('iframe.trace').scrollIntoView()")
                    asked, deadline = [], time.monotonic() + 20
                    while not asked and time.monotonic() < deadline:
                        time.sleep(0.1)
                        asked = [(url, failed) for url, failed in browser.requests() if "/traces/" in url]
                    self.assertEqual([(url.partition("#")[0], failed) for url, failed in asked], [((SITE / "traces" / page.name).as_uri(), False)])

    def test_the_theme_can_be_chosen(self):
        with webdriver.Browser(*DESKTOP) as browser:
            for page, choose, dark in (("index.html", False, False), ("index.html", True, True), ("primer.html", False, True), ("primer.html", True, False)):
                browser.visit((SITE / page).as_uri())
                if choose:
                    browser.run("document.getElementById('theme').click()")
                self.assertEqual(browser.run("return getComputedStyle(document.documentElement).colorScheme"), "dark" if dark else "light", (page, choose))

    def test_search_finds_prose_headings_and_names(self):
        """The page that explains a word is among the first places; what no page has is not found."""
        with webdriver.Browser(*DESKTOP) as browser:
            browser.visit((SITE / "index.html").as_uri())
            for words, page in (("bank conflict", "primer.html"), ("bank conflicts", "glossary.html"), ("occupancy", "glossary.html"), ("occupan", "counters.html"),
                                ("associative", "phase0_softmax.html"), ("dQ deterministic", "phase8_backward.html")):
                with self.subTest(words):
                    found = browser.run_async(SEARCH, words)
                    self.assertIn(page, [url.partition("#")[0] for _, _, url in found[:10]])
                    for _, _, url in found:
                        file, _, anchor = url.partition("#")
                        self.assertTrue((SITE / file).exists(), url)
                        self.assertTrue(not anchor or f'id="{anchor}"' in (SITE / file).read_text(), url)
            self.assertTrue(any("flash_decode" in heading for heading, _, _ in browser.run_async(SEARCH, "flash_decode")[:3]))
            self.assertEqual(browser.run_async(SEARCH, "xylophone"), [])
            self.assertTrue(browser.run_async(SEARCH, "bank xylophone"))
            self.assertIn("No place has all", browser.run("return document.getElementById('count').textContent"))

    def test_search_by_keyboard(self):
        with webdriver.Browser(*DESKTOP) as browser:
            browser.visit((SITE / "index.html").as_uri())
            focused = "const e = document.activeElement; return (e.id || e.getAttribute('href'))"
            browser.type("/")
            self.assertEqual(browser.run(focused), "query")
            browser.type("occupancy")
            deadline = time.monotonic() + 20
            while not browser.run("return document.querySelectorAll('#found a').length > 2") and time.monotonic() < deadline:
                time.sleep(0.1)
            places = browser.run("return [...document.querySelectorAll('#found a')].map(e => e.getAttribute('href'))")
            browser.type("\ue015\ue015")  # down, down
            self.assertEqual(browser.run(focused), places[1])
            browser.type("\ue013")  # up
            self.assertEqual(browser.run(focused), places[0])
            browser.type("\ue00c")  # escape
            self.assertEqual(browser.run(focused + " + document.getElementById('results').hidden"), "querytrue")
            browser.type("\ue015")  # down shows the places again
            while browser.run("return document.getElementById('results').hidden") and time.monotonic() < deadline:
                time.sleep(0.1)
            browser.type("\ue006")  # enter opens the first
            while browser.run("return location.pathname.endsWith('index.html')") and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertTrue(browser.run("return location.href").endswith(places[0]))


class Visitor(unittest.TestCase):
    """That a visit finds what is wrong with a page."""

    def test_broken_pages(self):
        broken = {
            "script": ("<script src='missing.js'></script>", "missing.js"),
            "picture": ("<img src='missing.svg' alt=''>", "missing.svg"),
            "error": ("<script>undefined_function()</script>", "undefined_function"),
            "network": ("<img src='http://127.0.0.1:9/picture.png' alt=''>", "127.0.0.1:9"),
            "formula": ("<p>where \\(x\\) is</p>", "left as text"),
            "doxygen": ("<p>where \\f$x\\f$ is</p>", "left as text"),
            "undrawn": ("<p hidden><math><mi>x</mi></math></p>", "not drawn"),
            "not understood": ("<math><merror><mtext>\\x</mtext></merror></math>", "not understood"),
            "font": ("<style>@font-face { font-family: Formulas; src: url(data:font/woff2;base64,) }</style><math><mi>x</mi></math>", "not loaded"),
            "heavy": (f"<!--{'x' * HEAVIEST}-->", "KiB, of 300 allowed"),
        }
        with tempfile.TemporaryDirectory() as folder, webdriver.Browser(*PHONE) as browser:
            for name, (body, word) in broken.items():
                with self.subTest(name):
                    page = pathlib.Path(folder, f"{name}.html")
                    page.write_text(f"<!doctype html><title>x</title><div class='contents'>{body}</div>")
                    self.assertIn(word, "\n".join(problems_of(browser, page)[1]))
            page = pathlib.Path(folder, "wide.html")
            page.write_text("<!doctype html><meta name=viewport content='width=device-width'><div class='contents'><div style='overflow: auto'><pre "
                            "style='width: 900px'>x</pre></div></div>")
            browser.visit(page.as_uri())
            self.assertEqual(browser.run(TOO_WIDE), [])
            page.write_text(page.read_text().replace("overflow: auto", ""))
            browser.visit(page.as_uri())
            self.assertIn("PRE", browser.run(TOO_WIDE)[0])


def missing():
    sys.path.insert(0, str(REPOSITORY / "common/site"))
    import build
    return build.missing("doxygen") + ([] if shutil.which("dot") else ["graphviz"]) + webdriver.missing()


if __name__ == "__main__":
    if missing():
        print(f"NOT RUN: the site in a browser: {', '.join(missing())} not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
