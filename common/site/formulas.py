"""Formulas of the site: MathML, which browsers draw and screen readers speak without a script, and the font that it is set in.

KaTeX translates when the site is built. The font is Latin Modern Math, reduced to the characters of the formulas and carried in a style
sheet, because some browsers load no font file for a page that is opened from a folder.
"""

import base64
import html
import json
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KATEX = pathlib.Path("/usr/share/javascript/katex/katex.js")
FONT = pathlib.Path("/usr/share/texmf/fonts/opentype/public/lm-math/latinmodern-math.otf")
STYLE = "formulas.css"

# What Doxygen leaves of a formula. Code is passed over: there the same characters are a regular expression.
FORMULA = re.compile(r'<pre\b.*?</pre>|<code\b.*?</code>|<div class="line">.*?</div>|\\\((?P<inline>.+?)\\\)|\\\[(?P<display>.+?)\\\]', re.DOTALL)
ITALIC = {**{chr(ord("a") + i): chr(0x1D44E + i) for i in range(26)}, **{chr(ord("A") + i): chr(0x1D434 + i) for i in range(26)},
          **{chr(ord("α") + i): chr(0x1D6FC + i) for i in range(25)}, "h": "ℎ", "ϵ": "𝜖"}
ALWAYS = "√−"  # drawn by elements of MathML, not written in it


def found_in(text):
    """(TeX, whether it is displayed) of each formula of a page."""
    return [key(found) for found in FORMULA.finditer(text) if found.lastgroup]


def key(found):
    return html.unescape(found[found.lastgroup]).strip(), found.lastgroup == "display"


def drawn(formulas):
    """The MathML of each formula. Raises subprocess.CalledProcessError, whose stderr names what KaTeX does not understand."""
    formulas = sorted(set(formulas))
    made = subprocess.run(["node", HERE / "formulas.js", KATEX], input=json.dumps(formulas), capture_output=True, text=True, check=True).stdout
    return {formula: tidied(math) for formula, math in zip(formulas, json.loads(made), strict=True)}


def tidied(math):
    """KaTeX's MathML without its TeX, with the space after the name of a function, and a sign where browsers would subtract."""
    math = re.sub(r'^<span class="katex">|</span>$|<annotation.*?</annotation>|</?semantics>', "", math, flags=re.DOTALL)
    math = re.sub(r"<mo>\u2061</mo>(?!<mo [^>]*>\(|<mrow><mo [^>]*>\()", '<mspace width="0.1667em"/>', math)
    return re.sub(r"(<mo[^>]*>(?:[(\[,=≥≤]|&lt;|&gt;)</mo>|<mspace[^>]*(?:/>|></mspace>))<mo>−</mo>", r'\1<mo form="prefix">−</mo>', math)


def replaced(text, math):
    """The page with its formulas as MathML."""
    return FORMULA.sub(lambda found: math[key(found)] if found.lastgroup else found.group(0), text)


def style(math):
    """The style sheet with the font for these formulas."""
    written = set(html.unescape(re.sub(r"<[^>]*>", "", "".join(math)))) | set(ALWAYS)
    written |= {ITALIC[letter] for letter in written if letter in ITALIC}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "font.woff2")
        # Debian's own Python is the one that has Debian's packages.
        subprocess.run(["/usr/bin/python3", "-m", "fontTools.subset", FONT, f"--text={''.join(sorted(written))}", "--flavor=woff2",
                        f"--output-file={file}"], check=True, capture_output=True, text=True)
        font = base64.b64encode(file.read_bytes()).decode()
    return (f'@font-face {{ font-family: "Formulas"; src: url(data:font/woff2;base64,{font}) format("woff2"); }}\n'
            'math { font-family: "Formulas", math; }\n')


def missing():
    """What is not installed, by the names of Debian's packages."""
    needed = {"nodejs": shutil.which("node"), "libjs-katex": KATEX.exists(), "fonts-lmodern": FONT.exists()}
    for package, module in (("python3-fonttools", "fontTools"), ("python3-brotli", "brotli")):
        needed[package] = subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode == 0
    return [package for package, there in needed.items() if not there]
