"""The minutes that a chapter says it takes to read: computed from its words."""

import math
import re

import prose

WORDS_A_MINUTE = 130  # with a pencil in hand
SAID = re.compile(r"(\bReading: )\d+( minutes\b)")


def minutes(text):
    """Of the prose and of quoted code, without output and tables of speeds; rounded up to five."""
    words = len(re.findall(r"[^\W\d_][\w'’-]*", prose.only(text) + prose.quoted_code(text)))
    return max(5, 5 * math.ceil(words / WORDS_A_MINUTE / 5))


def with_minutes(text):
    """The page with its minutes as they are; a page that says none stays as it is."""
    return SAID.sub(lambda said: f"{said[1]}{minutes(text)}{said[2]}", text, count=1)
