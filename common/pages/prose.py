"""What of a page its writer has written: not quoted code and output, not formulas, not names in code."""

import re

PIECE = re.compile(r"^ *<!-- (?:code|output|python|program|speed|exercises|timetable|steps)\b.*?<!-- end -->", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^ *<!-- code: [^\n]*-->\n(.*?)<!-- end -->", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^ *\2`*$", re.DOTALL | re.MULTILINE)
TICKED = re.compile(r"(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", re.DOTALL)
OTHER = re.compile(r"<!--.*?-->|\$\$.*?\$\$|(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)|\$[^$\n]+\$|(?<=\])\([^)\s]*\)", re.DOTALL)


def blank(found):
    return re.sub(r"[^\n]", " ", found.group(0))


def only(text):
    """The page with everything else blanked out, so that places and line numbers stay."""
    for pattern in (PIECE, FENCE, OTHER):
        text = pattern.sub(blank, text)
    return text


def quoted_code(text):
    return "\n".join(CODE.findall(text))
