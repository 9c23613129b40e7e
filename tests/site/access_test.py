"""axe-core over every page of the book, and a sample of the reference: contrast, alternative texts, labels, landmarks, the order of headings,
what a keyboard reaches. In the dark, and on a phone, which differ by style sheets that all pages share, over some of the pages, or over all for
`./ladder test --all` (share.py).

  python3 access_test.py REPOSITORY OUTPUT        OUTPUT/html is where the site is built

Exits with 77, and says what is missing, where there is no site, no Chromium, or no axe-core. A package of PyPI carries axe-core:

  python3 -m pip install --no-deps --target OUTPUT/axe axe-playwright-python
"""

import os
import pathlib
import sys
import tempfile
import unittest

import webdriver

REPOSITORY, OUTPUT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(REPOSITORY / "tests"))

import share  # noqa: E402

SITE = OUTPUT / "html"
AXE = OUTPUT / "axe/axe_playwright_python/axe.min.js"
PHONE, DESKTOP = (390, 844), (1280, 900)

# What axe-core objects to, a line for each rule: its name, how many elements, the first of them. A table's head that is a formula is
# not empty, though axe-core does not read MathML.
CHECK = r"""
const [rules, done] = arguments;
const objects = ({id, nodes}) => id === 'empty-table-header' ? nodes.filter(node => !node.html.includes('<math')) : nodes;
document.querySelectorAll('details').forEach(e => e.open = true);
axe.run(document, {resultTypes: ['violations'], iframes: false, ...(rules ? {runOnly: rules} : {})}).then(result => done(result.violations.flatMap(violation => {
    const nodes = objects(violation);
    return nodes.length ? [`${violation.id}, ${nodes.length} times: ${nodes[0].html.slice(0, 160)}`] : [];
})), error => done([String(error)]));
"""


def violations(browser, address, rules=None):
    """What is wrong with a page, by all of axe-core's rules or by these."""
    browser.visit(address)
    browser.run(AXE.read_text())
    return browser.run_async(CHECK, rules)


class Access(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(REPOSITORY / "common/site"))
        import pages
        cls.book = [SITE / pages.html_file(page) for page in pages.all_pages()]
        reference = sorted(set(SITE.glob("*.html")) - set(cls.book))
        cls.reference = [SITE / f"{name}.html" for name in ("namespaces", "annotated", "files", "namespacemembers")] + reference[::50]

    def visit(self, pages, size, dark):
        with webdriver.Browser(*size, dark=dark) as browser:
            for page in pages:
                with self.subTest(page.name, dark=dark, width=size[0]):  # the theme changes colours and nothing else
                    self.assertEqual(violations(browser, page.as_uri(), ["color-contrast"] if dark else None), [])

    def test_the_book_in_the_light(self):
        self.visit(self.book, DESKTOP, dark=False)

    def test_the_book_in_the_dark(self):
        self.visit(share.sample(self.book), DESKTOP, dark=True)

    def test_chapters_on_a_phone(self):
        self.visit(share.sample(page for page in self.book if page.name.startswith(("index", "phase"))), PHONE, dark=False)

    def test_the_reference(self):
        for dark in (False, True):
            self.visit(self.reference, DESKTOP, dark)

    def test_traces(self):
        traces = sorted((SITE / "traces").glob("*.html"))
        self.assertGreater(len(traces), 5)
        self.visit(traces, DESKTOP, dark=False)
        self.visit(share.sample(traces), DESKTOP, dark=True)


class Checker(unittest.TestCase):
    """That a visit finds what is wrong with a page."""

    def test_broken_pages(self):
        broken = {
            "color-contrast": "<p style='color: #999; background: #fff'>words</p>",
            "image-alt": "<img src='data:,'>",
            "label": "<input type='text'>",
            "frame-title": "<iframe srcdoc='x'></iframe>",
            "heading-order": "<h4>too deep</h4>",
            "link-name": "<a href='#x'></a>",
        }
        with tempfile.TemporaryDirectory() as folder, webdriver.Browser(*DESKTOP) as browser:
            for rule, body in {**broken, "": "<p>words</p>"}.items():
                with self.subTest(rule):
                    page = pathlib.Path(folder, "page.html")
                    page.write_text(f"<!doctype html><html lang='en'><title>x</title><main><h1>x</h1>{body}</main>")
                    self.assertEqual([line.split(",")[0] for line in violations(browser, page.as_uri())], [rule] if rule else [])


def missing():
    needed = [] if SITE.exists() else ["site (`./ladder docs` builds it)"]
    if not AXE.exists():
        needed.append(f"axe-core (python3 -m pip install --no-deps --target {os.path.relpath(OUTPUT / 'axe', REPOSITORY)} axe-playwright-python)")
    return needed + webdriver.missing()


if __name__ == "__main__":
    if missing():
        print(f"NOT RUN: the site as a screen reader has it: there is no {', no '.join(missing())}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
