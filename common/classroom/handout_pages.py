"""Chapters for a hand-out: they name no command and link no file that it lacks.

What a command of the whole program would show is told by its name in words: "the profile of phase 3" for `./ladder profile 3`. Where a
sentence asks the reader to run one, that is left out, and so is a paragraph about ./ladder quiz or trace.
"""

import os
import posixpath
import re

COMMANDS = ("learn", "grade", "doctor")
IN_WORDS = {"run": "tour", "profile": "profile", "test": "test run", "mutants": "catalogue's run", "fuzz": "fuzzer", "bench": "benchmark",
            "overflow": "overflow run", "ring": "ring program", "train": "training", "docs": "site"}
NAMED = re.compile(r"`\./ladder\s+([a-z-]+)([^`]*)`")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
MARKER = re.compile(r"^ *<!-- (?:code|output|python|program|speed|exercises|timetable|trace|end)\b.*?-->\n", re.MULTILINE)
FENCE = re.compile(r"^( *)(```+)[^\n]*\n.*?^\1\2 *$\n?", re.MULTILINE | re.DOTALL)
COMMAND_LINE = re.compile(r"^\s*(?:\./ladder (?!(?:%s)\b)|cmake |python3? (?!docs/)|git )" % "|".join(COMMANDS))
LEFT_OUT_SECTIONS = ("## For further thought",)  # of exercises/README.md: they work in the phase's own kernel, with its tests


def commands_in(text):
    """The commands of ./ladder that a text names."""
    return set(re.findall(r"\./ladder\s+([a-z][a-z-]*)", text))


def links_in(text):
    """Targets of the links and images of a page, without those in code and on the web."""
    outside = re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))
    return [match[3] for match in LINK.finditer(outside) if not re.match(r"[a-z]+:", match[3])]


def target_of(page, link):
    """The path of what a link on `page` leads to, from the top of the folder."""
    path = link.partition("#")[0]
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page


def _told(match):
    command, rest = match[1], match[2].split()
    if command in COMMANDS or command not in IN_WORDS:
        return match[0]
    phases = []
    while rest and rest[0].isdigit():
        phases.append(rest.pop(0))
    words = f"the {IN_WORDS[command]}"
    if phases:
        words += f" of phase{'s' if len(phases) > 1 else ''} {' and '.join(phases)}"
    return words + (f" with `{' '.join(rest)}`" if rest else "")


SENTENCE_END = re.compile(r"(?<=[.!?])(?=\s+[A-Z`*(])")
# "…, and run `./ladder test 3`, and see what objects", "Run `./ladder test 0`: rows near 0 stay"
ASKED_TO_RUN = re.compile(r"(?:,?\s+and|,)\s+run\s+(?:it\s+with\s+)?`\./ladder\s(?!learn|grade|doctor)[^`]*`(?:, and see what objects)?")
RUN_FIRST = re.compile(r"Run\s+`\./ladder\s(?!learn|grade|doctor)[^`]*`:\s+(\w)")


def _sentence(text):
    """What is left of a sentence."""
    if re.search(r"`cmake |torch\.ops|\b[Bb]egin with two commands|\b[Rr]un\s+`\./ladder\s(?!learn|grade|doctor)", text):
        return ""
    return NAMED.sub(_told, text)


def _paragraph(text):
    if text.lstrip().startswith("|"):
        return NAMED.sub(_told, "".join(row for row in text.splitlines(keepends=True) if not commands_in(row) & {"quiz", "trace"}))
    if commands_in(text) & {"quiz", "trace"}:
        return ""
    if not commands_in(text) - set(COMMANDS) and "`cmake " not in text and "torch.ops" not in text:
        return text
    text = RUN_FIRST.sub(lambda match: match[1].upper(), ASKED_TO_RUN.sub("", text))
    told = "".join(map(_sentence, SENTENCE_END.split(text))).lstrip("\n ")
    return re.sub(r"(^|[.!?]\s+|\*\*\s)the (?=%s)" % "|".join(IN_WORDS.values()), r"\1The ", told)


def _fence(text):
    if "torch.ops" in text:
        return ""
    lines = text.splitlines(keepends=True)
    inner = [line for line in lines[1:-1] if not COMMAND_LINE.match(line)]
    return "".join([lines[0], *inner, lines[-1]]) if any(line.strip() for line in inner) else ""


def _without_sections(text):
    for heading in LEFT_OUT_SECTIONS:
        text = re.sub(rf"^{re.escape(heading)}\n.*?(?=^## |\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def _without_empty_sections(text):
    """Headings under which nothing is left."""
    return re.sub(r"^## [^\n]*\n\s*(?=^## |\Z)", "", text, flags=re.MULTILINE)


def adapted(page, text, present):
    """A page as a hand-out has it. `present`: the paths of all files of the hand-out."""
    def missing(to):
        return not re.match(r"[a-z]+:", to) and target_of(page, to) not in present

    def link(match):
        image, words, to = match.groups()
        return match[0] if not missing(to) else "" if image else words

    def without_paths(paragraph):
        """Without sentences that point to a missing file by its path."""
        if not any(missing(match[3]) and re.fullmatch(r"[\w.-]+/[\w./-]+", match[2]) for match in LINK.finditer(paragraph)):
            return paragraph
        kept = [s for s in SENTENCE_END.split(paragraph)
                if not any(missing(m[3]) and re.fullmatch(r"[\w.-]+/[\w./-]+", m[2]) for m in LINK.finditer(s))]
        return "".join(kept).lstrip("\n ")

    text = MARKER.sub("", _without_sections(text))
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [(text[end:fence.start()], False), (fence[0], True)]
        end = fence.end()
    parts.append((text[end:], False))
    adapted_parts = []
    for part, is_fence in parts:
        if is_fence:
            adapted_parts.append(_fence(part))
        else:
            paragraphs = re.split(r"(\n{2,})", part)
            adapted_parts.append(LINK.sub(link, "".join(_paragraph(without_paths(p)) if p.strip() else p for p in paragraphs)))
    return re.sub(r"\n{3,}", "\n\n", _without_empty_sections("".join(adapted_parts)))


def dead_ends(root):
    """["page: what it names and the folder lacks"] of the pages in a folder. There should be none."""
    present = {os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names}
    found = []
    for page in sorted(path for path in present if path.endswith(".md")):
        with open(os.path.join(root, page)) as file:
            text = file.read()
        found += [f"{page}: links {to}" for to in links_in(text) if target_of(page, to) not in present]
        found += [f"{page}: names ./ladder {command}" for command in sorted(commands_in(text) - set(COMMANDS))]
    return found
