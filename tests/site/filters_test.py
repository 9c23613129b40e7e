"""Tests of what the site is made with: the filters for pages and code, the check of links.

  python3 filters_test.py REPOSITORY
"""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(sys.argv[1], "common/site")))
import check_links  # noqa: E402
import code_filter  # noqa: E402
import formulas  # noqa: E402
import markdown_filter  # noqa: E402
import pages  # noqa: E402
import search_index  # noqa: E402
import shell  # noqa: E402


class Book(unittest.TestCase):
    """A small book of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("README.md", "# The book\n\n## First\n")
        self.write("phase0_x/README.md", "# Phase 0: x, and why\n\n## The `d'` form, $O(n)$\n\n## Twice\n\n## Twice\n")
        self.write("phase0_x/kernel.cuh", "// code\n")
        self.write("docs/primer.md", "# Primer\n")
        self.write("docs/figures/a.svg", "<svg/>")

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def filtered(self, text, page="phase0_x/README.md"):
        return markdown_filter.filtered(text, page, self.root).rstrip("\n")


class Pages(Book):
    def test_order_and_names(self):
        self.write("docs/numerics.md", "# Numerics\n")
        self.write("docs/another.md", "# Another\n")
        self.write("phase1_y/README.md", "# Phase 1: y\n")
        self.assertEqual(pages.all_pages(self.root), ["README.md", "docs/primer.md", "phase0_x/README.md", "phase1_y/README.md",
                                                      "docs/numerics.md", "docs/another.md"])
        self.assertEqual([pages.label(page) for page in pages.all_pages(self.root)][:4], ["index", "primer", "phase0_x", "phase1_y"])
        self.assertEqual(pages.short_title("phase0_x/README.md", self.root), "Phase 0: x")

    def test_anchors_as_code_hosts_give_them(self):
        taken = {}
        for heading, anchor in (("Who owns what?", "who-owns-what"), ("1. The `d'` form, in B_r steps", "1-the-d-form-in-b_r-steps"),
                                ("[A link](x.md) & more", "a-link--more"), ("Who owns what?", "who-owns-what-1")):
            self.assertEqual(pages.slug(heading, taken), anchor)

    def test_fences(self):
        lines = ["a", "```cpp", "b", "~~~", "```", "c", "- ```", "  d", "  ```", "`e`", "````", "```", "````"]
        prose = [line for line, is_prose in pages.outside_fences(lines) if is_prose]
        self.assertEqual(prose, ["a", "c", "`e`"])


class Formulas(Book):
    def test_formulas(self):
        for text, made in (
                ("where $x_i$ is", r"where \f$x_i\f$ is"),
                ("$a$ and $b$ twice", r"\f$a\f$ and \f$b\f$ twice"),
                ("over\n$\\sum_i\nx_i$ lines", "over\n\\f$\\sum_i\nx_i\\f$ lines"),
                ("$$\nx = \\frac{a}{b}\n$$", "\\f[\nx = \\frac{a}{b}\n\\f]"),
                ("  $$\n  x\n  $$", "  \\f[\n  x\n  \\f]"),
                ("($x$), $y$.", r'<span class="together">(\f$x\f$),</span> <span class="together">\f$y\f$.</span>'),
                ("| $a$ | $b$ |", r"| \f$a\f$ | \f$b\f$ |"),
                ("$`x`$", r"\f$x\f$")):
            self.assertEqual(self.filtered(text), made)

    def test_what_is_none(self):
        for text in ("it costs $5 and $6", "a $ b $ c", "run `echo $HOME $PATH`", "```sh\necho $x$\n```", "`` a ` $x$ ``", "one $x\n\nother y$ end"):
            self.assertEqual(self.filtered(text), text)

    def test_nothing_in_a_formula_is_markdown(self):
        self.assertEqual(self.filtered("$a*b*c [x](y) `d`$"), r"\f$a*b*c [x](y) `d`\f$")


class Text(Book):
    def test_code_with_an_apostrophe(self):
        self.assertEqual(self.filtered("the `d'` form's `x`"), "the ``d'`` form's `x`")

    def test_bold_and_italics_beside_code(self):
        self.assertEqual(self.filtered("**`exp2`**, *as `x` is*, *plain* and 2 * `a` * 3"),
                         "<b>`exp2`</b>, <em>as `x` is</em>, *plain* and 2 * `a` * 3")

    def test_formulas_in_quotation_marks(self):
        self.assertEqual(self.filtered('**"When $x$ is `y`."** "plain"'), '<b>&quot;When \\f$x\\f$ is `y`.&quot;</b> "plain"')

    def test_folded_answers(self):
        text = "<details><summary>What is `x<y>` & $z$?</summary>\n\nIt is **y**.\n\n</details>"
        self.assertEqual(self.filtered(text), "@htmlonly[block]<details>@endhtmlonly@htmlonly[block]<summary>What is <code>x&lt;y></code> &amp; "
                                              "\\(z\\)?</summary>@endhtmlonly\n\nIt is <b>y</b>.\n\n@htmlonly[block]</details>@endhtmlonly")

    def test_comments_go_and_lines_stay(self):
        self.assertEqual(self.filtered("a\n<!-- code: x\n -->\nb"), "a\n\n\nb")
        self.assertEqual(self.filtered("`<!-- x -->`"), "`<!-- x -->`")

    def test_traces(self):
        text = "a\n\n<!-- trace: 3 --keys 128 -->\n\n```\n<!-- trace: 4 -->\n```"
        self.assertEqual(markdown_filter.traces(text), ["3 --keys 128"])
        self.assertIn('data-src="traces/phase0_x.html#embed"></iframe><p class="full-size"><a href="traces/phase0_x.html" target="_blank">Open this run at full '
                      'size</a></p>@endhtmlonly', self.filtered(text))

    def test_headings(self):
        made = self.filtered("# Title\n\n## The `d'` form\n\n### $x$\n\n```\n# no heading\n```")
        for part in ("# Title {#phase0_x}\n\n[TOC]\n", "## The ``d'`` form {#phase0_x--the-d-form}", "### \\f$x\\f$ {#phase0_x--x}", "\n# no heading\n"):
            self.assertIn(part, made)
        self.assertIn("# The book {#mainpage}", self.filtered("# The book\n", "README.md"))


    def test_anchors(self):
        text = '<a id="a-term"></a>**A term.** It is $x$.'
        self.assertEqual(self.filtered(text), "@anchor phase0_x--a-term <b>A term.</b> It is <span class=\"together\">\\f$x\\f$.</span>")
        self.assertIn("a-term", markdown_filter.anchors(text))


class Links(Book):
    def test_links(self):
        for link, made in (
                ("[a](../README.md)", "[a](@ref index)"),
                ("[a](../docs/primer.md)", "[a](@ref primer)"),
                ("[a](README.md#twice-1)", "[a](@ref phase0_x--twice-1)"),
                ("[a](#twice)", "[a](@ref phase0_x--twice)"),
                ("[`a`](kernel.cuh)", "[`a`](repo/phase0_x/kernel.cuh)"),
                ("[a](../phase0_x/)", "[a](@ref phase0_x)"),
                ("[a](../docs/figures)", "[a](repo/docs/figures)"),
                ("![see](../docs/figures/a.svg)", "![see](repo/docs/figures/a.svg)"),
                ("[a](https://example.org/x)", "[a](https://example.org/x)"),
                ("[a]: kernel.cuh", "[a]: repo/phase0_x/kernel.cuh")):
            self.assertEqual(self.filtered(link), made)
        self.assertEqual(self.filtered("`[a](kernel.cuh)`"), "`[a](kernel.cuh)`")
        self.assertEqual(markdown_filter.files_named("[a](kernel.cuh) `[b](x.h)` [c](README.md) ![d](../docs/figures/a.svg)",
                                                     "phase0_x/README.md", self.root), ["docs/figures/a.svg", "phase0_x/kernel.cuh"])

    def test_dead_links(self):
        text = "[a](nothing.h) [b](../docs/gone.md) [c](#nowhere) [d](#twice) [e](kernel.cuh) `[f](x)` [g](https://example.org)"
        self.write("phase0_x/README.md", f"# Title\n\n## Twice\n\n{text}\n")
        found = markdown_filter.dead_links((self.root / "phase0_x/README.md").read_text(), "phase0_x/README.md", self.root)
        self.assertEqual([line.split(": ", 1)[1] for line in found],
                         ["nothing.h: there is no such file", "../docs/gone.md: there is no such file", "#nowhere: there is no such heading"])


class MathML(unittest.TestCase):
    def test_formulas_are_found_outside_code(self):
        text = r'<p>\(a &lt; b\) and <code>\(no\)</code></p><div class="line">\(no\)</div><p class="formulaDsp">\[ x^2 \]</p>'
        self.assertEqual(formulas.found_in(text), [("a < b", False), ("x^2", True)])
        self.assertEqual(formulas.replaced(text, {("a < b", False): "ONE", ("x^2", True): "TWO"}),
                         r'<p>ONE and <code>\(no\)</code></p><div class="line">\(no\)</div><p class="formulaDsp">TWO</p>')

    def test_spaces_that_browsers_leave_out(self):
        wrapped = '<span class="katex"><math><semantics><mrow>{}</mrow><annotation encoding="x">TeX</annotation></semantics></math></span>'
        for inner, made in (("<mi>ln</mi><mo>\u2061</mo><mn>2</mn>", '<mi>ln</mi><mspace width="0.1667em"/><mn>2</mn>'),
                            ('<mi>ln</mi><mo>\u2061</mo><mo stretchy="false">(</mo>', '<mi>ln</mi><mo>\u2061</mo><mo stretchy="false">(</mo>'),
                            ("<mo>=</mo><mo>−</mo><mn>1</mn>", '<mo>=</mo><mo form="prefix">−</mo><mn>1</mn>'),
                            ("<mi>a</mi><mo>−</mo><mn>1</mn>", "<mi>a</mi><mo>−</mo><mn>1</mn>")):
            self.assertEqual(formulas.tidied(wrapped.format(inner)), f"<math><mrow>{made}</mrow></math>")


class Shell(unittest.TestCase):
    def test_one_heading_of_the_first_level(self):
        made = shell.with_headings('<div class="title">A page </div><div class="textblock"><h1>One</h1><h2 class="x">Two</h2></div>')
        self.assertEqual(made, '<h1 class="title">A page </h1><div class="textblock"><h2>One</h2><h3 class="x">Two</h3></div>')
        made = shell.with_headings('<title>Names · X</title><div class="contents"><h3><a id="index_a"></a>- a -</h3></div>')
        self.assertIn('<h1 class="title">Names</h1>', made)
        self.assertIn("<h2><a id=", made)

    def test_later_pictures_wait(self):
        image = '<img src="x.svg" alt="A" style="pointer-events: none;" class="inline"/>'
        self.assertEqual(shell.picture(image, 0), '<img src="x.svg" alt="A" class="figure"/>')
        self.assertEqual(shell.picture(image, shell.LAZY_FROM), '<img loading="lazy" src="x.svg" alt="A" class="figure"/>')

    def test_what_scripts_would_fold_is_open(self):
        self.assertEqual(shell.without_scripts('<td colspan="2" onclick="javascript:toggleInherit(\'x\')"><img src="closed.png" alt="-"/>&#160;'
                                               '</td><span id="arr_0_" class="arrow" onclick="toggleFolder(\'0_\')">&#9660;</span>'), '<td colspan="2">&#160;</td>')


class SearchIndex(unittest.TestCase):
    def test_sections_of_a_page(self):
        text = ('<h1 class="title">Page</h1><nav class="here"><a href="#a">A</a></nav><p>Intro <code>cp.async</code></p>'
                '<h2><a class="anchor" id="p--a"></a>A\nheading</h2><div class="fragment"><div class="line">code</div></div><p>Text.</p>'
                '<p><a class="anchor" id="p--term"></a><b>Term.</b> It means this. <b>Bold</b> is no term.</p>')
        found = [{name: " ".join(value.split()) for name, value in section.items()} for section in search_index.Sections(text).found]
        self.assertEqual(found, [{"heading": "Page", "anchor": "", "text": "Intro cp.async"}, {"heading": "A heading", "anchor": "p--a", "text": "Text."},
                                 {"heading": "Term.", "anchor": "p--term", "text": "It means this. Bold is no term."}])


class Code(unittest.TestCase):
    def filtered(self, text):
        made = code_filter.filtered(text, "a/b.h")
        self.assertEqual(made.count("\n"), text.count("\n"), "lines must keep their numbers")
        return made

    def test_one_comment_for_several_declarations(self):
        made = self.filtered("x;\n\n/// Both.\nint f();\nint g() {\n\n    return 1;\n}\n\nint h();\n")
        self.assertIn("/**@{*/ /// Both.", made)
        self.assertIn("} /**@}*/\n\nint h();", made)

    def test_one_comment_for_several_names(self):
        self.assertIn("/**@{*/ /** Sizes. */ int a, b = 2; /**@}*/", self.filtered("struct X {\n    int a, b = 2;  ///< Sizes.\n};\n"))

    def test_what_has_a_comment_of_its_own_stays_out(self):
        for text in ("x;\n\n/// One.\nint f();\n/// Other.\nint g();\n", "x;\n\n/// One.\nint f();\nint g;  ///< Other.\n", "x;\n\n/// A type.\nstruct X {\n    int a;\n};\n",
                     "x;\n\n/// One.\nvoid f(int a, int b);\n", "x;\n\n/// One.\nexplicit X(int a);\n~X();\nX(const X&) = delete;\n"):
            self.assertEqual(self.filtered(text), text)

    def test_the_first_sentence(self):
        self.assertEqual(self.filtered("x;\n\n/// By Dao et al. 2022. Fast.\nint f();\n"), "x;\n\n/// By Dao et al.\\ 2022. Fast.\nint f();\n")
        self.assertEqual(self.filtered("x;\n\n/// See `./ladder run` of\n/// today.\nint f();\n"), "x;\n\n/// See `ladder run` of\n/// today.\nint f();\n")

    def test_columns(self):
        self.assertEqual(self.filtered("x;\n\n/// Text.\n///\n///   - a\n///   - list\n///\n///   q  [B]\n///\n///   k  [C]\n///\n/// More.\nint f();\n"),
                         "x;\n\n/** Text.\n\n   - a\n   - list\n @verbatim\n   q  [B]\n\n   k  [C]\n @endverbatim\n More. */\nint f();\n")

    def test_the_plan_of_a_file(self):
        made = self.filtered("#pragma once\n\n// clang-format off\n/// A kernel.\n///\n///   grid   x\n// clang-format on\n\ntemplate <class T>\n__global__ void k(T t) {\n}\n")
        self.assertIn("/** @file a/b.h\n A kernel.\n @verbatim\n   grid   x @endverbatim */\n// clang-format on", made)
        self.assertIn("/** The kernel whose plan opens a/b.h. */ template <class T>\n__global__", made)


class CheckLinks(unittest.TestCase):
    def problems(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name.replace("_", ".")).write_text(text)
            return check_links.problems(folder)

    def test_all_is_well(self):
        self.assertEqual(self.problems(a_html='<a href="b.html#x">b</a> <a href="#y" id="y">y</a> <a href="https://example.org">z</a>'
                                              '<img src="c.svg"><style>p { background: url(c.svg) }</style>',
                                       b_html='<p id="x">x</p>', c_svg="<svg/>"), [])

    def test_what_is_wrong(self):
        for text, word in (('<a href="none.html">x</a>', "none.html: there is no such file"), ('<a href="#none">x</a>', "no such anchor"),
                           ('<a href="a.html#none">x</a>', "no such anchor"), ('<img src="none.svg">', "none.svg: there is no such file"),
                           ('<script src="https://example.org/x.js"></script>', "network"), ('<link rel=stylesheet href="//example.org/x.css">', "network"),
                           ('<style>@import "https://example.org/x.css";</style>', "network"), ('<p style="background: url(none.png)">', "none.png: there is no such file")):
            found = self.problems(a_html=text)
            self.assertEqual(len(found), 1, text)
            self.assertIn(word, found[0])
        self.assertIn("network", self.problems(a_css="p { src: url(http://example.org/font.woff) }")[0])
        self.assertIn("network", self.problems(a_svg='<svg><image href="http://example.org/x.png"/></svg>')[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
