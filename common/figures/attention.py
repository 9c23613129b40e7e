"""The figure of the first chapter: four tokens through Q, K, V, S, P and O, computed from the chapter's own example."""

import contextlib
import io
import runpy

from constants import ROOT
from draw import MARGIN, WIDTH, Figure

EXAMPLE = "docs/attention/four_tokens.py"
ROW, TOP = 30, 66


def example():
    """(Q, K, V, S, P, O) of the example, rows of numbers, and its tokens: what the program computes is what is drawn."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        ran = runpy.run_path(str(ROOT / EXAMPLE))
    rows = [line.split() for line in printed.getvalue().splitlines()]

    def after(name):
        return [[float(x) for x in row[row.index(name) + 1:row.index(name) + 5]] for row in rows]

    return *([*ran[name].values()] for name in "QKV"), *(after(name) for name in "SPO"), [*ran["Q"]]


def matrix(figure, x, y, name, colour, rows, wide, form, bold_row):
    figure.text(x + 2 * wide, y - 12, name, anchor="middle", bold=True, colour=colour)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            figure.rect(x + wide * j, y + ROW * i, wide, ROW, fill=colour, line=colour, round_=0, width=2.5 if i == bold_row else 1,
                        opacity=None if bold_row in (None, i) else 0.45)
            figure.text(x + wide * (j + 0.5), y + ROW * i + 20, form.format(value), anchor="middle", size=15, bold=i == bold_row)


def four_tokens():
    Q, K, V, S, P, O, tokens = example()
    it = tokens.index("it")
    figure = Figure(
        "Four tokens through attention",
        f"Tokens {', '.join(tokens)}. The row of “it” in Q, times all rows of K, gives its scores {S[it]}; their softmax its weights "
        f"{P[it]}; these times the rows of V its output {O[it]}.")
    narrow, wide = 26, 48
    left, gap = 96, 52
    for n, (name, colour, rows) in enumerate((("Q", "q", Q), ("K", "k", K), ("V", "v", V))):
        matrix(figure, left + n * (4 * narrow + gap + 12), TOP, name, colour, rows, narrow, "{:g}", it if name == "Q" else None)
    for y in (TOP, TOP + 4 * ROW + 68):
        for i, token in enumerate(tokens):
            figure.text(MARGIN, y + ROW * i + 20, token, size=16, bold=i == it)
    y = TOP + 4 * ROW + 68
    matrix(figure, left, y, "S = Q Kᵀ / 2", "s", S, narrow + 4, "{:.0f}", it)
    matrix(figure, left + 4 * (narrow + 4) + 20, y, "P = softmax(S)", "s", P, 46, "{:.2f}", it)
    matrix(figure, WIDTH - MARGIN - 4 * 46, y, "O = P V", "o", O, 46, "{:.2f}", it)
    return figure


FIGURES = {"four_tokens": four_tokens}
