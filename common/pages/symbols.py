"""Symbols in prose: those with indices are formulas, $S_{ij}$ and not S_ij; a proof ends with ∎; logarithms are ln. In code they stay as
they are, and so do headings, HTML and the texts of pictures. docs/notation.md says what each symbol means."""

import re

import prose

# K_j, P_ij, B_r, m_i, LSE_p, T_1. Names of code are longer, or stand between backquotes.
SYMBOL = r"(?:[A-Za-z]|LSE|d[OQKV])_(?:[a-z]{1,2}|\d)(?:ᵀ|\^T\b)?(?![\w(\[/]|\.\w)"
# Neighbours make one formula: S_ij = Q_i K_j^T.
RAW = re.compile(rf"(?<![\w$`/.\\>]){SYMBOL}(?:(?: |\s[=·/]\s|\s\+=\s){SYMBOL})*")
# Headings become anchors, and texts for pictures and in HTML are not searched for formulas by every reader of Markdown.
ELSEWHERE = re.compile(r"^ *#[^\n]*|!\[[^\]]*\]|<summary>.*?</summary>|<code>.*?</code>", re.MULTILINE | re.DOTALL)
# Pages for those who work on the code name things as the code does.
EXEMPT = ("CONTRIBUTING.md", "common/", "tests/")
OTHERS = ((re.compile(r"\\square\b|□|\bq\.?e\.?d\b", re.IGNORECASE), "a proof ends with ∎"),
          (re.compile(r"\\log(?!_)(?![a-z])|\blog [\dlm]\b"), r"write \ln, or name the base"),
          (re.compile(r"\\hat o|Ô", re.IGNORECASE), r"O is not yet divided, \bar O is"))


def raw(text):
    """Each raw symbol in the prose of a page."""
    return list(RAW.finditer(ELSEWHERE.sub(prose.blank, prose.only(text))))


def formula(words):
    words = re.sub(r"_([a-z]{2})", r"_{\1}", " ".join(words.split()))
    for plain, tex in (("ᵀ", "^T"), ("+=", r"\mathrel{+}="), ("·", r"\cdot"), ("LSE", r"\text{LSE}")):
        words = words.replace(plain, tex)
    return f"${words}$"


def set_in_italics(name, text):
    """The page with its symbols as formulas."""
    if name.startswith(EXEMPT):
        return text
    parts, place = [], 0
    for found in raw(text):
        parts += [text[place:found.start()], formula(found.group(0))]
        place = found.end()
    return "".join(parts) + text[place:]


def problems(name, text):
    """Notation that no other page has: its line, and what to write instead."""
    if name.startswith(EXEMPT):
        return []
    for pattern in (prose.PIECE, prose.FENCE, prose.TICKED):
        text = pattern.sub(prose.blank, text)
    return [f'{text.count(chr(10), 0, m.start()) + 1}: "{m.group(0)}": {instead}' for pattern, instead in OTHERS for m in pattern.finditer(text)]
