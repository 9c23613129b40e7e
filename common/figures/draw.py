"""Draws one figure as SVG: shapes and words in the colours of palette.py, light or dark as the reader's system is.

Lengths are pixels of a figure 640 wide. Pages show figures between 720 and 350 pixels wide, so words have at least 15.
Words that leave the figure, or that overlap others, are errors.
"""

import html
import re
import unicodedata

import palette

WIDTH = 640
SHOWN_WIDTH = 720
MARGIN = 24
SMALLEST, USUAL = 15, 17  # sizes of words
THICK = 1.5  # lines

SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


class FigureError(Exception):
    """A figure that a reader could not read."""


def _number(x):
    return f"{round(x, 2):g}"


def _runs(text):
    """Splits `code`, *italic*, x_{sub} and x^{sup} into (text, kind) with kind in "", code, italic, sub, sup."""
    token = re.compile(r"`([^`]+)`|\*([^*]+)\*|_\{([^}]+)\}|_(\w)|\^\{([^}]+)\}|\^(\w)")
    runs, at = [], 0
    for match in token.finditer(text):
        if match.start() > at:
            runs.append((text[at:match.start()], ""))
        kind = ("code", "italic", "sub", "sub", "sup", "sup")[match.lastindex - 1]
        runs.append((match.group(match.lastindex), kind))
        at = match.end()
    if at < len(text):
        runs.append((text[at:], ""))
    return runs


def _em(character):
    """Roughly how wide a character is in a wide system font, in units of the font size."""
    if unicodedata.combining(character):
        return 0.0
    if character in "ijl|!.,:;'· ":
        return 0.34
    if character in "ftrI()[]-/\"":
        return 0.42
    if character in "mwMWQO@%—…→←≤≥×÷−+=<>~":
        return 0.86
    return 0.70 if character.isupper() else 0.62


def width_of(text, size, bold=False):
    """How wide words are at most, roughly."""
    total = 0.0
    for run, kind in _runs(text):
        scale = 0.78 if kind in ("sub", "sup") else 1.0
        total += scale * sum(0.61 if kind == "code" else _em(c) for c in run)
    return total * size * (1.08 if bold else 1.0)


class Figure:
    """Shapes take `fill` and `line`, names of palette colours; a fill of "q" is Q's area, "q!" its strong colour."""

    def __init__(self, title, description):
        self.title, self.description = title, description
        self._elements, self._classes, self._words = [], set(), []
        self._bottom = 0.0

    def rect(self, x, y, w, h, fill=None, line=None, width=THICK, round_=3, dash=None, opacity=None):
        self._grow(y + h)
        self._add("rect", {"x": x, "y": y, "width": w, "height": h, "rx": round_ or None},
                  fill, line, width, dash, opacity)

    def circle(self, x, y, r, fill=None, line=None, width=THICK):
        self._grow(y + r)
        self._add("circle", {"cx": x, "cy": y, "r": r}, fill, line, width)

    def polygon(self, points, fill=None, line=None, width=THICK, opacity=None):
        self._grow(max(y for _, y in points))
        self._add("polygon", {"points": " ".join(f"{_number(x)},{_number(y)}" for x, y in points)},
                  fill, line, width, None, opacity)

    def line(self, *points, line="rule", width=THICK, dash=None, opacity=None):
        self._grow(max(y for _, y in points))
        self._add("polyline", {"points": " ".join(f"{_number(x)},{_number(y)}" for x, y in points)},
                  None, line, width, dash, opacity)

    def path(self, d, fill=None, line="rule", width=THICK, dash=None, opacity=None):
        self._add("path", {"d": d}, fill, line, width, dash, opacity)

    def arrow(self, *points, line="plain", width=2.0, dash=None, head=None):
        """A line along the points, with a head at the last one."""
        (x0, y0), (x1, y1) = points[-2], points[-1]
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        head = head or 5 + 2.0 * width
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        base = (x1 - head * dx, y1 - head * dy)
        self.line(*points[:-1], base, line=line, width=width, dash=dash)
        half = 0.55 * head
        self.polygon([(x1, y1), (base[0] - half * dy, base[1] + half * dx), (base[0] + half * dy, base[1] - half * dx)],
                     fill=f"{line}!")

    def text(self, x, y, words, size=USUAL, colour="ink", anchor="start", bold=False):
        """One line of words with its baseline at y; see _runs for the marks in it."""
        if size < SMALLEST:
            raise FigureError(f'"{words}" is {size} pixels high; readers on a phone need {SMALLEST}')
        self._grow(y + 0.3 * size)
        width = width_of(words, size, bold)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        self._words.append((words, left, y - 0.74 * size, left + width, y + 0.22 * size))

        spans, shift = [], 0.0
        for run, kind in _runs(words):
            to = {"sub": 0.22, "sup": -0.38}.get(kind, 0.0) * size
            style = f' dy="{_number(to - shift)}"' if to != shift else ""
            shift = to
            if kind in ("sub", "sup"):
                style += f' font-size="{_number(0.78 * size)}"'
            elif kind:
                style += f' class="{kind}"'
                self._classes.add(kind)
            words_of_run = html.escape(run, quote=False)
            spans.append(f"<tspan{style}>{words_of_run}</tspan>" if style else words_of_run)
        attributes = [f'x="{_number(x)}" y="{_number(y)}"', f'class="{self._class("fill", colour + "!")}"']
        if size != USUAL:
            attributes.append(f'font-size="{_number(size)}"')
        if anchor != "start":
            attributes.append(f'text-anchor="{anchor}"')
        if bold:
            attributes.append('font-weight="600"')
        self._elements.append(f'<text {" ".join(attributes)}>{"".join(spans)}</text>')

    def svg(self):
        height = self._bottom + MARGIN
        self._check_words(height)
        style = self._style()
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_number(height)}" '
                f'width="{SHOWN_WIDTH}" height="{_number(height * SHOWN_WIDTH / WIDTH)}" role="img" '
                f'aria-labelledby="title description" xml:space="preserve" font-size="{USUAL}" fill="none" '
                f'stroke-width="{THICK}" stroke-linejoin="round">\n'
                f'<title id="title">{html.escape(self.title, quote=False)}</title>\n'
                f'<desc id="description">{html.escape(self.description, quote=False)}</desc>\n'
                f"<style>\n{style}\n</style>\n"
                f'<rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{_number(height - 1)}" rx="10"/>\n'
                + "\n".join(self._elements) + "\n</svg>\n")

    def _grow(self, y):
        self._bottom = max(self._bottom, y)

    def _add(self, tag, attributes, fill, line, width, dash=None, opacity=None):
        classes = [self._class("fill", fill)] if fill else []
        if line:
            classes.append(self._class("line", line))
            attributes["stroke-width"] = width if width != THICK else None
        attributes["stroke-dasharray"] = dash
        attributes["opacity"] = opacity
        text = " ".join(f'{name}="{value if isinstance(value, str) else _number(value)}"'
                        for name, value in attributes.items() if value is not None)
        self._elements.append(f'<{tag} class="{" ".join(classes)}" {text}/>')

    def _class(self, role, name):
        self._classes.add((role, name))
        return f"{role[0]}-{name.removesuffix('!')}{'-strong' if name.endswith('!') and role == 'fill' else ''}"

    def _style(self):
        def rules(theme):
            def colour(role, name):
                plain = name.removesuffix("!")
                if plain in ("ink", "quiet", "rule", "panel"):
                    return getattr(theme, plain)
                return theme.colours[plain].line if role == "line" or name.endswith("!") else theme.colours[plain].fill

            found = [f".panel{{fill:{theme.panel};stroke:{theme.border}}}"]
            for role, name in sorted(c for c in self._classes if isinstance(c, tuple)):
                kind = {"fill": "fill", "line": "stroke"}[role]
                found.append(f".{self._class(role, name)}{{{kind}:{colour(role, name)}}}")
            return found

        general = [f"text{{font-family:{SANS}}}"]
        if "code" in self._classes:
            general.append(f".code{{font-family:{MONO}}}")
        if "italic" in self._classes:
            general.append(".italic{font-style:italic}")
        dark = "\n".join(rules(palette.DARK))
        return "\n".join(general + rules(palette.LIGHT)) + f"\n@media (prefers-color-scheme:dark){{\n{dark}\n}}"

    def _check_words(self, height):
        for i, (words, left, top, right, bottom) in enumerate(self._words):
            if left < 8 or right > WIDTH - 8 or top < 8 or bottom > height - 8:
                raise FigureError(f'"{words}" leaves the figure: from {left:.0f} to {right:.0f}, {top:.0f} to '
                                  f"{bottom:.0f} of {WIDTH} x {height:.0f}")
            for other, l, t, r, b in self._words[:i]:
                if left < r and l < right and top < b and t < bottom:
                    raise FigureError(f'"{words}" at ({left:.0f}, {top:.0f}) overlaps "{other}" at ({l:.0f}, {t:.0f})')
