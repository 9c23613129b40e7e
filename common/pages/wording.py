"""Words and phrases that no page uses: wording.toml has the list, and what to write instead."""

import functools
import pathlib
import re
import tomllib

import prose

LIST = pathlib.Path(__file__).resolve().with_name("wording.toml")
# Beside the pages: texts of exercises, what the quiz says, and what is said of a known mistake.
OTHER_TEXTS = ("phase*/exercises/exercises.toml", "phase*/rung/quiz.cpp", "phase*/rung/mutants.toml",
               "tests/mutants/catalogue/*.toml")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


@functools.cache
def listed():
    """(pattern, what to write instead) for each entry."""
    return [(re.compile(entry["avoid"].replace(" ", r"\s+"), re.IGNORECASE), entry["write"])
            for entry in tomllib.loads(LIST.read_text())["phrase"]]


def other_texts(root):
    return sorted(file for pattern in OTHER_TEXTS for file in root.glob(pattern))


def only_strings(text):
    """C++ with everything but its string literals blanked out, and the quotation marks too: neighbours read as one text."""
    kept, place = [], 0
    for found in STRING.finditer(text):
        kept += [prose.blank(re.match(r".*", text[place:found.start()], re.DOTALL)), " ", found.group(0)[1:-1], " "]
        place = found.end()
    return "".join(kept) + prose.blank(re.match(r".*", text[place:], re.DOTALL))


def problems(name, text):
    """Each use of such a word: its line, the words, and what to write instead."""
    read = only_strings(text) if name.endswith(".cpp") else prose.only(text)
    found = [(m.start(), " ".join(m.group(0).split()), instead) for pattern, instead in listed() for m in pattern.finditer(read)]
    return [f'{read.count(chr(10), 0, place) + 1}: "{words}": {instead}' for place, words, instead in sorted(found)]
