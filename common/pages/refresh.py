"""Keeps true what the pages quote: code, what the ladder prints, recorded speeds, exercises, the timetable.

  python3 common/pages/refresh.py [PAGE…]                  rewrites the marked pieces of the pages, or of all of them
  python3 common/pages/refresh.py --check [PAGE…]          changes nothing; fails if a page says what is no longer so
  python3 common/pages/refresh.py --program FILE …         runs another ladder than build/common/cli/ladder

A piece stands between two comments on lines of their own, and everything between them belongs to this script:

  <!-- code: FILE | TEXT OF FIRST LINE | TEXT OF LAST LINE -->           lines of a file, its path relative to the page
  <!-- output: ARGUMENTS | TEXT OF FIRST LINE | TEXT OF LAST LINE -->    lines of what `ladder ARGUMENTS` prints
  <!-- python: FILE -->                                                  what a Python program prints, its path relative to the page
  <!-- program: docs/NAME | TEXT OF FIRST LINE | TEXT OF LAST LINE -->   what a program of the build prints, right (exit 0) or wrong (1)
  <!-- speed -->   <!-- speed: 3 -->                                     recorded speeds, of all phases or of one
  <!-- exercises -->   <!-- exercises: 3 -->                             what there is to do, in all phases or in one
  <!-- timetable -->                                                     the chapters' minutes, added up
  <!-- end -->

A piece goes from the one line that contains the first text to the next line from there that contains the last text. Without
a last text it is that one line, without both it is everything. Space of any width in a text stands for space of any width.
A text that no line has, or a first text that several lines have, is an error: nothing is quoted by accident. Not quoted are the
lines of a kernel that mark an exercise's solution (common/classroom/marks.py), and those by which a trace follows it (quoting.py).

Times change from run to run. What a command printed with times in it is kept in docs/results/cpu/printed, and all pages quote the
times of that one run; a command that now prints something else but times writes it anew.

Beside the pieces four things are held true: sentences whose numbers facts.py can find out, the minutes that a page says it takes
to read (computed from its words), the words of wording.toml, which no page uses, and that prose has its symbols as formulas
($S_{ij}$, not S_ij: symbols.py).
"""

import argparse
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import exercise_table
import facts
import reading
import speed_table
import symbols
import wording

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/classroom"))
import marks  # noqa: E402
import quoting  # noqa: E402

PROGRAM = ROOT / "build/common/cli/ladder"
PAGES = ("*.md", "common/**/*.md", "docs/**/*.md", "phase*/**/*.md", "tests/**/*.md")
CHAPTERS = ("docs/attention.md", "docs/primer.md", "phase*/README.md")
PRINTED = "docs/results/cpu/printed"
WIDTH = 110  # columns of code that a page shows side by side
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".cuh": "cpp", ".cu": "cpp", ".py": "python", ".sh": "sh", ".cmake": "cmake"}
MARKER = re.compile(r"( *)<!-- (code|output|python|program|speed|exercises|timetable|end)(?::\s+(.*?))? -->")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Problem(Exception):
    """What is wrong with one marked piece, in words for who wrote it."""


def squeezed(text):
    return " ".join(text.split())


def selected(lines, first, last, where):
    """The lines from the one that contains `first` to the next that contains `last`; see the top of this file."""
    if not first:
        return lines
    found = [i for i, line in enumerate(lines) if squeezed(first) in squeezed(line)]
    if len(found) != 1:
        count = f"{len(found)} lines contain" if found else "no line contains"
        numbers = f" (lines {', '.join(str(i + 1) for i in found[:8])}): name one of them" if found else ""
        raise Problem(f'{where}: {count} the first text "{first}"{numbers}')
    start = found[0]
    if not last:
        return lines[start:start + 1]
    for end in range(start, len(lines)):
        if squeezed(last) in squeezed(lines[end]):
            return lines[start:end + 1]
    raise Problem(f'{where}: no line from line {start + 1} on contains the last text "{last}"')


def code_lines(file):
    """The lines of a file that a page may quote."""
    try:
        return quoting.quotable(file)
    except marks.MarkError as problem:
        raise Problem(f"{file.name}: {problem}") from problem


def dedented(lines):
    """Without the indentation that all share. A line for the preprocessor (#pragma unroll) has none, and does not count."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.startswith("#")), default=0)
    return "\n".join(line.rstrip() if line.startswith("#") else line[margin:].rstrip() for line in lines).strip("\n")


def folded(lines):
    """Lines as wide as a page shows; what is over goes on below, indented further."""
    found = []
    for line in lines:
        margin = " " * (len(line) - len(line.lstrip()))
        found += textwrap.wrap(line.strip(), WIDTH, initial_indent=margin, subsequent_indent=margin) or [line]
    return found


def fenced(lines, language=""):
    text = dedented(lines)
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def without_times(line):
    """Times differ from run to run; so does the width of their column."""
    line = re.sub(r"\b\d+(\.\d+)? (ns|us|ms|s)\b", "TIME", line)
    return re.sub(r" +", " ", line).strip()


def with_times_of(record, lines):
    """The lines with the times of the record, wherever it says the same but for times."""
    pairs = difflib.SequenceMatcher(None, [*map(without_times, record)], [*map(without_times, lines)], autojunk=False)
    lines = list(lines)
    for old, new, count in pairs.get_matching_blocks():
        lines[new:new + count] = record[old:old + count]
    return lines


class Ladder:
    """The program; each command runs once, however many pages quote it."""

    def __init__(self, program, root, check):
        self.program, self.root, self.check = program, root, check
        self.printed = {}

    def lines(self, arguments):
        if arguments not in self.printed:
            self.printed[arguments] = self.recorded(arguments, self.run(arguments))
        return self.printed[arguments]

    def recorded(self, arguments, lines):
        """Output with times in it is recorded, so that all pages show the times of one run."""
        if all("TIME" not in without_times(line) for line in lines):
            return lines
        file = self.root / PRINTED / f"{re.sub(r'[^-.,=+ 0-9A-Za-z]', '', arguments).replace(' ', '_')}.txt"
        before = file.read_text() if file.is_file() else ""
        lines = with_times_of(before.splitlines(), lines)
        if not self.check and (after := "\n".join(line.rstrip() for line in lines) + "\n") != before:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(after)
        return lines

    def run(self, arguments):
        return self.lines_of(f"ladder {arguments}", [self.program, *shlex.split(arguments)], accepted=(0,))

    def neighbour(self, name):
        """What another program of the same build prints. A wrong kernel's ends with 1, and its diagnosis is what is quoted."""
        return self.lines_of(name, [self.program.resolve().parents[2] / name], accepted=(0, 1))

    def lines_of(self, what, command, accepted):
        try:
            result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300,
                                    env={**os.environ, "NO_COLOR": "1"})
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise Problem(f"{what}: {problem} (cmake --build build --target ladder_cli builds the programs)") from problem
        if result.returncode not in accepted:
            raise Problem(f"{what}: exit code {result.returncode}: {result.stderr.strip()[-400:]}")
        return result.stdout.splitlines()


def timetable(root, page):
    """Reading and exercises of every page that says its minutes, as a table with their sums."""
    minutes = []
    for file in (file for pattern in CHAPTERS for file in sorted(root.glob(pattern))):
        text = file.read_text()
        said = [re.search(rf"\b{what}: (\d+) minutes\.", text) for what in ("Reading", "Exercises")]
        if not said[0]:
            if file.name == "README.md":
                raise Problem(f'{file.relative_to(root)} does not say "Reading: N minutes."')
            continue
        title = re.search(r"^# (.*)", text, re.MULTILINE).group(1)
        exercises = exercise_table.minutes(file.parent)
        if exercises is not None and (not said[1] or int(said[1].group(1)) != exercises):
            raise Problem(f'{file.relative_to(root)} does not say "Exercises: {exercises} minutes.", which is the sum of its exercises.toml')
        link = os.path.relpath(file, page.parent)
        minutes.append((f"[{title}]({link})", reading.minutes(text), int(said[1].group(1)) if said[1] else 0))
    if not minutes:
        raise Problem("no page says its minutes")
    rows = [f"| {title} | {to_read} | {to_do} | {to_read + to_do} |" for title, to_read, to_do in minutes]
    to_read, to_do = (sum(row[i] for row in minutes) for i in (1, 2))
    total = to_read + to_do
    return "\n".join(["| chapter | reading, minutes | exercises, minutes | together |", "|---|---:|---:|---:|", *rows,
                      f"| **all** | **{to_read}** | **{to_do}** | **{total}**, {total / 60:.1f} hours |"])


def piece(kind, said, page, root, ladder):
    """Markdown of one marked place."""
    what, first, last, *more = [part.strip() for part in (said or "").split(" | ")] + ["", ""]
    if any(more):
        raise Problem(f"{kind}: at most two texts, divided by \" | \": {said}")
    if kind == "code":
        file = page.parent / what
        if not what or not file.is_file():
            raise Problem(f'code: there is no file "{what}" beside this page')
        return fenced(selected(code_lines(file), first, last, what), LANGUAGES.get(file.suffix, ""))
    if kind == "python":
        result = subprocess.run([sys.executable, "-B", page.parent / what], capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            raise Problem(f"python {what}: exit code {result.returncode}: {result.stderr.strip()[-400:]}")
        return fenced(selected(result.stdout.splitlines(), first, last, what))
    if kind == "program":
        return fenced(folded(selected(ladder.neighbour(what), first, last, what)))
    if kind == "output":
        return fenced(selected(ladder.lines(what), first, last, f"ladder {what}"))
    if kind in ("speed", "exercises"):
        if what and not what.isdigit():
            raise Problem(f'{kind}: "{what}" is not the number of a phase')
        phase = int(what) if what else None
        if kind == "speed":
            return speed_table.section(root, page, phase)
        if not (table := exercise_table.table(root, page, phase)):
            raise Problem("exercises: there are none" + (f" in phase {phase}" if what else ""))
        return table
    return timetable(root, page)


def refreshed(text, page, root, ladder):
    """The page with every piece as it should be, and what is wrong with pieces that cannot be made."""
    lines, problems, fence, opened, after = text.splitlines(), [], "", None, []
    for number, line in enumerate(lines, 1):
        marker = None if fence else MARKER.fullmatch(line)
        if opened is None:
            after.append(line)
            if ticks := FENCE.match(line):
                if not fence:
                    fence = ticks.group(1)
                elif ticks.group(1).startswith(fence) and not line.strip(" " + fence[0]):
                    fence = ""
            if marker and marker.group(2) == "end":
                problems.append(f"{number}: an end without a beginning")
            elif marker:
                opened, begun, inside = marker, number, []
        elif marker := MARKER.fullmatch(line):
            if marker.group(2) != "end":
                problems.append(f"{begun}: this piece has no <!-- end --> before the next one begins")
                return text, problems
            indent, kind, said = opened.groups()
            try:
                after += textwrap.indent(piece(kind, said, page, root, ladder), indent).splitlines()
            except Problem as problem:
                problems.append(f"{begun}: {problem}")
                after += inside
            after.append(line)
            opened = None
        else:
            inside.append(line)
    if opened:
        problems.append(f"{begun}: this piece has no <!-- end -->")
        return text, problems
    return "\n".join(after) + "\n", problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="What the marks mean: see the top of this file.")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE", help="Markdown files (default: every page)")
    parser.add_argument("--check", action="store_true", help="change nothing, fail if something would change")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, metavar="FILE", help=f"default: {PROGRAM.relative_to(ROOT)}")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)  # its tests make small books
    arguments = parser.parse_args()

    root = arguments.root.resolve()
    ladder, failed = Ladder(arguments.program, root, arguments.check), False
    pages = [page.resolve() for page in arguments.pages] or sorted(page for pattern in PAGES for page in root.glob(pattern))
    for page in pages:
        name = os.path.relpath(page, root)
        before = page.read_text()
        after, problems = refreshed(before, page, root, ladder)
        after = reading.with_minutes(after)
        if root == ROOT:
            problems += facts.problems(name, after, ladder)
        problems += wording.problems(name, after)
        after = symbols.set_in_italics(name, after)
        problems += symbols.problems(name, after)
        for problem in problems:
            print(f"{name}:{problem}", file=sys.stderr)
        failed = failed or bool(problems)
        if before == after:
            continue
        if arguments.check:
            print(f"{name} does not show what is so now: run python3 common/pages/refresh.py", file=sys.stderr)
            failed = True
        else:
            page.write_text(after)
            print(f"{name} refreshed")
    for text in [] if arguments.pages else wording.other_texts(root):
        for problem in wording.problems(os.path.relpath(text, root), text.read_text()):
            print(f"{os.path.relpath(text, root)}:{problem}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
