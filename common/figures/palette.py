"""The colours of all figures, by what they stand for: the same in every chapter.

Each name has a pair for light surroundings and one for dark ones: `line` for outlines, arrows and coloured words,
`fill` for areas that words may stand on.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Colour:
    line: str
    fill: str


@dataclasses.dataclass(frozen=True)
class Theme:
    panel: str   # what a figure lies on: it brings its own ground, so it is legible wherever it is shown
    border: str
    ink: str     # words
    quiet: str   # words that are not the point
    rule: str    # thin lines
    colours: dict[str, Colour]


LIGHT = Theme(
    panel="#fcfdfe", border="#d5dbe1", ink="#1d242b", quiet="#59636e", rule="#aab3bd",
    colours={
        "q": Colour("#2364b8", "#d3e4f9"),
        "k": Colour("#8f4f00", "#fbe2bd"),
        "v": Colour("#16653b", "#cfecd9"),
        "s": Colour("#6a48ba", "#e3d9f8"),      # scores, and the probabilities that they become
        "o": Colour("#ab2f78", "#f8d7e8"),
        "state": Colour("#096670", "#c8e9ec"),  # m, l and the LSE
        "plain": Colour("#59636e", "#e9edf1"),  # machinery: threads, blocks, memory
        "wrong": Colour("#b3261a", "#fbd9d4"),
    })

DARK = Theme(
    panel="#1a1f24", border="#343c45", ink="#e6eaee", quiet="#a7b1bb", rule="#5b6672",
    colours={
        "q": Colour("#7fb5fb", "#1e3f69"),
        "k": Colour("#f0ad5a", "#5a3a0f"),
        "v": Colour("#70cf99", "#1b4a31"),
        "s": Colour("#bda3f5", "#40306a"),
        "o": Colour("#f290c4", "#5f2346"),
        "state": Colour("#62cbd5", "#12474d"),
        "plain": Colour("#a7b1bb", "#2c343c"),
        "wrong": Colour("#ff8a7a", "#5a231d"),
    })


def _luminance(colour):
    channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    """The contrast ratio of WCAG 2, from 1 to 21; words want 4.5."""
    lighter, darker = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def check():
    """Raises ValueError if some words would be hard to read."""
    for name, theme in (("light", LIGHT), ("dark", DARK)):
        grounds = {"panel": theme.panel} | {f"{c}.fill": colour.fill for c, colour in theme.colours.items()}
        words = [("ink", theme.ink, grounds), ("quiet", theme.quiet, {"panel": theme.panel})]
        words += [(f"{c}.line", colour.line, {"panel": theme.panel, f"{c}.fill": colour.fill})
                  for c, colour in theme.colours.items()]
        for word, colour, on in words:
            for ground, under in on.items():
                if (ratio := contrast(colour, under)) < 4.5:
                    raise ValueError(f"{name}: {word} on {ground} has a contrast of {ratio:.2f}; words need 4.5")
