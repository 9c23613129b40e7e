"""Builds the site and visits every page of it in a headless Chromium: formulas drawn, nothing on the console, nothing missing,
nothing asked of a network, no page wider than a phone.

  python3 site_test.py REPOSITORY OUTPUT        OUTPUT/html is where the site is built

Where LADDER_SITE_IS_BUILT is set, `./ladder docs` has just built it there, and it is only visited.
Exits with 77, and says what is missing, where Doxygen, MathJax, Chromium or its driver are not installed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import webdriver

REPOSITORY, OUTPUT = map(pathlib.Path, sys.argv[1:3])
SITE = OUTPUT / "html"
PHONE, DESKTOP = (390, 844), (1280, 900)

# What is wrong with the formulas of the page, once MathJax is done with it.
FORMULAS = r"""
const done = arguments[arguments.length - 1];
const report = () => {
    const wrong = [], formulas = document.querySelectorAll('script[type^="math/tex"]').length;
    const drawn = [...document.querySelectorAll('.MathJax_SVG svg')].filter(e => e.getBoundingClientRect().width > 0
                                                                              || e.closest('details:not([open])')).length;
    if (formulas !== drawn) wrong.push(`${formulas} formulas, ${drawn} drawn`);
    document.querySelectorAll('.MathJax_Error, .MathJax_SVG [data-mjx-error], .merror, .MathJax_SVG_Processing')
        .forEach(e => wrong.push('not drawn: ' + e.textContent));
    document.querySelectorAll('.MathJax_SVG text').forEach(e => {
        if (e.getAttribute('fill') === 'red' || /^\\/.test(e.textContent)) wrong.push('not understood: ' + e.textContent);
    });
    const texts = document.createTreeWalker(document.querySelector('.contents') || document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = texts.nextNode());)
        if (/\\\(|\\\[|\\f[$\[]/.test(node.data) && !node.parentElement.closest('script, style, pre, code, .fragment'))
            wrong.push('left as text: ' + node.data.trim().slice(0, 80));
    done([formulas, wrong]);
};
if (window.MathJax) MathJax.Hub.Queue(report); else report();
"""
# Names of what stands out to the right of the page, unless something around it scrolls.
TOO_WIDE = r"""
const width = document.documentElement.clientWidth, wide = [];
const scrolls = e => e && (/(auto|scroll|hidden)/.test(getComputedStyle(e).overflowX) && e.id !== 'doc-content' && e !== document.body
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

# Words with less contrast than WCAG 2 asks for (AA: 4.5, large ones 3), and pictures and frames without a text.
HARD_TO_READ = r"""
document.querySelectorAll('details').forEach(e => e.open = true);
const parse = c => { const n = (c.match(/[\d.]+/g) || []).map(Number); return n.length < 4 ? [...n, 1] : n; };
const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
const ground = e => {
    const layers = [];
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] >= 1) break; }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
};
const luminance = c => { const [r, g, b] = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const found = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; node = walker.nextNode();) {
    const e = node.parentElement, style = e && getComputedStyle(e);
    if (!node.data.trim() || !e || e.closest('script, style, svg, noscript') || !e.getClientRects().length || style.visibility === 'hidden') continue;
    const under = ground(e), words = over(parse(style.color), under);
    const [a, b] = [luminance(words), luminance(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) {
        const what = `${e.tagName.toLowerCase()}.${e.className}`;
        if (!found.has(what)) found.set(what, `${what} "${node.data.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
    }
}
document.querySelectorAll('img:not([alt]), iframe:not([title])').forEach(e => found.set(e.src, `${e.tagName} ${e.src} has no text`));
return [...found.values()].slice(0, 5);
"""


def problems_of(browser, page):
    """What a visitor of the page meets, a line each; and how many formulas there are."""
    browser.visit(page.as_uri())
    formulas, found = browser.run_async(FORMULAS)
    found += [f"console: {entry['message']}" for entry in browser.console() if entry["level"] in ("SEVERE", "WARNING")]
    for url, failed in browser.requests():
        if failed:
            found.append(f"could not load {url}")
        elif not url.startswith(("file:", "data:", "blob:", "chrome")):
            found.append(f"asked the network for {url}")
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
        """Of the reference, which one template makes, a tenth; all of it for `./ladder test --all`."""
        self.assertGreater(len(self.pages), 100)
        reference = [page for page in self.pages if page not in self.book]
        formulas = {}
        with webdriver.Browser(*DESKTOP) as browser:
            for page in self.book + reference[::1 if os.environ.get("LADDER_TEST_ALL") else 10]:
                with self.subTest(page.name):
                    formulas[page], found = problems_of(browser, page)
                    self.assertEqual(found, [])
                    if page in self.book:
                        self.assertEqual(browser.run(CODE_THAT_SCROLLS), [])
        for page in self.book:  # what the page's text has, the browser has seen
            written = page.read_text().count("\\(") + page.read_text().count("\\[")
            self.assertEqual(formulas[page] > 0, written > 0, page.name)

    def test_the_book_on_a_phone_in_the_dark(self):
        with webdriver.Browser(*PHONE, dark=True) as browser:
            for page in self.book:
                with self.subTest(page.name):
                    self.assertEqual(problems_of(browser, page)[1], [])
                    browser.run("document.querySelectorAll('details').forEach(e => e.open = true)")
                    self.assertEqual(browser.run(TOO_WIDE), [])

    def test_the_book_is_legible(self):
        for dark in (False, True):
            with webdriver.Browser(*DESKTOP, dark=dark) as browser:
                for page in self.book:
                    with self.subTest(page.name, dark=dark):
                        browser.visit(page.as_uri())
                        self.assertEqual(browser.run(HARD_TO_READ), [])

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

    def test_search(self):
        with webdriver.Browser(*DESKTOP) as browser:
            browser.visit((SITE / "index.html").as_uri())
            browser.run("""
                document.getElementById('MSearchField').value = 'flash_decode';
                searchBox.OnSearchFieldFocus(true);
                searchBox.OnSearchFieldChange({keyCode: 0});""")
            found, deadline = [], time.monotonic() + 20
            while not found and time.monotonic() < deadline:
                time.sleep(0.2)
                browser.enter(browser.run("return document.querySelector('iframe#MSearchResults')"))  # Doxygen 1.9.4 has one
                found = browser.run("return [...document.querySelectorAll('.SRResult')].filter(e => e.offsetHeight).map(e => e.textContent)")
                browser.enter(None)
            self.assertIn("flash_decode", "\n".join(found))
            self.assertNotIn("fa2_forward", "\n".join(found))


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
    needed = [name for name in ("doxygen", "dot") if not shutil.which(name)]
    if not pathlib.Path("/usr/share/javascript/mathjax/MathJax.js").exists():
        needed.append("libjs-mathjax")
    return needed + webdriver.missing()


if __name__ == "__main__":
    if missing():
        print(f"NOT RUN: the site in a browser: {', '.join(missing())} not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
