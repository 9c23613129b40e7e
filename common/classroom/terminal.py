"""How the classroom speaks: plain lines, colour on terminals only."""

import os
import re
import shutil
import sys
import textwrap

COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def coloured():
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def paint(colour, text):
    return f"\033[{COLOURS[colour]}m{text}\033[0m" if coloured() else text


def plain(lines, most=200, longest=2000):
    """Lines that somebody else wrote, for a terminal and for data: what is no letter, digit or sign becomes a question mark."""
    def shown(line):
        readable = "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in line[:longest])
        return readable + (" …" if len(line) > longest else "")

    single = [part for line in lines for part in (line.split("\n") or [""])]
    return [shown(line) for line in single[:most]] + ([f"… and more lines: {len(single) - most}"] if len(single) > most else [])


def escaped(name):
    """A name in one line; no two names have the same."""
    def shown(c):
        if "\udc80" <= c <= "\udcff":  # a byte that is no UTF-8
            return f"\\x{ord(c) - 0xdc00:02x}"
        return "\\\\" if c == "\\" else c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"

    return "".join(map(shown, name))


def width():
    return min(shutil.get_terminal_size((100, 24)).columns, 110)


def wrapped(text, indent="  "):
    """Paragraphs of a markdown text; code stays as it is."""
    lines, in_code, paragraph = [], False, []

    def end():
        if paragraph:
            first = re.match(r"(\s*(?:[-*]|\d+\.) )", paragraph[0])
            lines.extend(textwrap.wrap(" ".join(part.strip() for part in paragraph), width(), initial_indent=indent,
                                       subsequent_indent=indent + " " * (len(first[1].lstrip()) if first else 0)))
            paragraph.clear()

    for line in text.strip().splitlines():
        if line.startswith("```"):
            end()
            in_code = not in_code
        elif in_code:
            lines.append(indent + "  " + line)
        elif not line.strip():
            end()
            lines.append("")
        else:
            if re.match(r"\s*(?:[-*]|\d+\.) ", line):
                end()
            paragraph.append(line)
    end()
    return lines


class Progress:
    """One line that changes while something works; silent where nobody watches."""

    def __init__(self):
        self.shown = False

    def __call__(self, text):
        if sys.stdout.isatty():
            print(f"\r\033[K{paint('dim', text + ' …')}", end="", flush=True)
            self.shown = True

    def clear(self):
        if self.shown:
            print("\r\033[K", end="", flush=True)
            self.shown = False
