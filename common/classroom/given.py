"""Lines of a kernel that one exercise asks for, and that others need: there they are given, and not shown.

In the file of another exercise, and in every header that a hand-out has, two lines replace them:

    // Given, since 3.1 asks for it: m_i, l_i and O_i under the new maximum; P_ij
    #include "given/online_update_5f0c2a91.inc"

The compiler gets that file for as long as it runs (workbench.py). A hand-out has it packed, in given.json.
"""

import dataclasses
import difflib
import functools
import hashlib
import json
import re
import shutil

import marks
import sealed

PACKED = "given.json"  # beside this file, in hand-outs
INCLUDED = re.compile(r'^\s*#include "(given/\w+\.inc)"', re.MULTILINE)
LONG_PIECE = 3  # so many lines of a longer piece, one behind the other, are no coincidence


@functools.cache
def key(line):
    """A line as it is compared: without comments and spaces at its ends."""
    return " ".join(re.sub(r"//.*", "", line).split())


@functools.cache
def says_something(line):
    """Whether a line tells by itself what it belongs to: braces and barriers do not."""
    return len(re.sub(r"\W", "", key(line))) > 8 and not key(line).startswith("__sync")


class Keys:
    """The lines of a text, as they are compared."""

    def __init__(self, text):
        self.of_lines = [key(line) for line in text.splitlines()]
        self.all = set(self.of_lines)
        self.numbers = [n for n, k in enumerate(self.of_lines) if k]
        self.told = [self.of_lines[n] for n in self.numbers]

    def places(self, wanted):
        """(begin, end) wherever lines with these keys follow each other; lines that are empty do not count."""
        if not self.all.issuperset(wanted):
            return []
        return [(self.numbers[n], self.numbers[n + len(wanted) - 1] + 1) for n, k in enumerate(self.told)
                if k == wanted[0] and tuple(self.told[n:n + len(wanted)]) == wanted]


keys_of = functools.lru_cache(4096)(Keys)


@dataclasses.dataclass(frozen=True, eq=False)
class Secret:
    """Neighbouring lines that an exercise asks for."""
    exercise: object
    name: str    # for files
    words: str   # what they do
    keys: tuple  # of the lines that are not empty

    @property
    def exact(self):
        """It shows only where all of its lines follow each other: of a longer one, a part is an answer, too."""
        return self.exercise.kind == "fix" or len(self.keys) <= LONG_PIECE

    @functools.cached_property
    def told(self):
        """Those keys that say something."""
        return frozenset(k for k in self.keys if says_something(k))

    def heading(self):
        # Somebody who is to find a mistake is not told where it would be.
        return f"// Given: {self.words}" if self.exercise.kind == "fix" else f"// Given, since {self.exercise.id} asks for it: {self.words}"


def _hunks(before, after):
    """(begin, end) of the lines of `after` that differ from `before`."""
    matcher = difflib.SequenceMatcher(None, [key(line) for line in before], [key(line) for line in after], autojunk=False)
    return [(j1, j2) for kind, _, _, j1, j2 in matcher.get_opcodes() if kind != "equal"]


def _corrected(exercise):
    """Of an exercise whose mistake is to be found: each stretch of lines that corrects it. One that says nothing by itself, such as a
    barrier, is known by its neighbours."""
    before, after = ([line for line in text.splitlines() if key(line)] for text in (exercise.whole_start(), exercise.whole_solution()))
    known = {key(line) for line in before}
    for begin, end in _hunks(before, after):
        while begin > 0 and end < len(after) and not any(says_something(line) and key(line) not in known for line in after[begin:end]):
            if end - begin >= LONG_PIECE:
                break
            begin, end = begin - 1, end + 1
        yield after[begin:end]


@functools.cache
def secrets(exercise):
    """What it asks for, as a list of Secret."""
    if exercise.kind == "fix":
        return [Secret(exercise, "lines", exercise.elsewhere, tuple(map(key, lines)))
                for lines in _corrected(exercise) if lines]
    return [Secret(exercise, piece.name, piece.asked_for, tuple(key(line) for line in piece.lines if key(line)))
            for piece in marks.pieces(exercise.source()) if piece.name in exercise.solution]


def _whole_statements(keys, begin, end):
    """The longest stretch of these lines that begins and ends with a statement, and closes every brace that it opens."""
    def depth_of(line):
        return line.count("{") - line.count("}")

    def closed(i, j):
        depth = 0
        for line in keys[i:j]:
            depth += depth_of(line)
            if depth < 0:
                return False
        return depth == 0

    starts = [n for n in range(begin, end) if keys[n] and not keys[n].startswith("#")
              and (n == 0 or keys[n - 1] == "" or keys[n - 1][-1] in ";{}" or keys[n - 1].startswith("#"))]
    ends = [n + 1 for n in range(begin, end) if keys[n] and keys[n][-1] in ";}"]
    stretches = [(i, j) for i in starts for j in ends if i < j and closed(i, j)]
    return max(stretches, key=lambda stretch: stretch[1] - stretch[0], default=None)


def _runs(keys, secret):
    """(begin, end) where lines with these keys show the secret, or a good part of it."""
    found = keys.places(secret.keys)
    if found or secret.exact or keys.all.isdisjoint(secret.told):
        return found
    wanted, lines = set(secret.keys), keys.of_lines
    begin = last = None
    for n, k in enumerate([*lines, None]):
        if k in wanted:
            begin, last = n if begin is None else begin, n
        elif begin is not None and k != "":
            stretch = _whole_statements(lines, begin, last + 1)
            if stretch and sum(says_something(told) for told in lines[slice(*stretch)]) >= LONG_PIECE:
                found.append(stretch)
            begin = None
    return found


def shown(text, secret):
    """Whether a text shows the secret: a short one whole, of a long one more than half of what says something."""
    keys = keys_of(text)
    if secret.exact:
        return bool(keys.places(secret.keys))
    return 2 * len(secret.told & keys.all) > len(secret.told)


def folded(text, hidden, kept=()):
    """(`text` with two lines instead of each of the secrets `hidden`, {path: lines that stood there}). Lines with the numbers
    `kept` stay. What the text shows whole goes first, the longest before others."""
    lines, keys = text.splitlines(), keys_of(text)
    place_of = {}  # number of a line: (begin, end, secret)
    for secret in sorted(hidden, key=lambda s: (not keys.places(s.keys), -len(s.keys))):
        for begin, end in _runs(keys, secret):
            if not any(n in place_of or n in kept for n in range(begin, end)):
                place_of |= {n: (begin, end, secret) for n in range(begin, end)}
    shown_lines, files = [], {}
    for n, line in enumerate(lines):
        if n not in place_of:
            shown_lines.append(line)
            continue
        begin, end, secret = place_of[n]
        if n == begin:
            part = "".join(inner + "\n" for inner in lines[begin:end])
            path = f"given/{secret.name}_{hashlib.sha256(part.encode()).hexdigest()[:8]}.inc"
            margin = re.match(r"\s*", line)[0]
            shown_lines += [margin + secret.heading(), f'{margin}#include "{path}"']
            files[path] = part
    return "".join(line + "\n" for line in shown_lines), files


def hidden_from(exercise, others):
    """The secrets of `others` that are folded in its file: all but those in which its own mistake is to be found."""
    secrets_of_others = [secret for other in others if other.id != exercise.id for secret in secrets(other)]
    if exercise.kind != "fix":
        return secrets_of_others
    after = exercise.whole_solution().splitlines()
    corrected = {key(line) for begin, end in _hunks(exercise.whole_start().splitlines(), after) for line in after[begin:end]} - {""}
    return [secret for secret in secrets_of_others
            if secret.exercise.kind == "fix" or secret.exercise.file != exercise.file or not corrected & set(secret.keys)]


def kept_lines(exercise, text):
    """Numbers of the lines of `text`, its starting point or its solution, that belong to it: where YOUR CODE is to stand, or
    stands, or what is to be corrected. They are not to be folded."""
    lines = text.splitlines()
    if exercise.kind == "fix":
        other = exercise.whole_solution() if text == exercise.whole_start() else exercise.whole_start()
        return {n for begin, end in _hunks(other.splitlines(), lines) for n in range(begin, max(end, begin + 1))}
    if text == exercise.whole_solution():
        names = [piece.name for piece in marks.pieces(exercise.source()) for _ in piece.lines]
        return {n for n, name in enumerate(names) if name in exercise.solution}
    numbers, inside = set(), False
    for n, line in enumerate(lines):
        inside = inside or line.lstrip().startswith("// YOUR CODE")
        if inside:
            numbers.add(n)
        inside = inside and line.strip() != "// END OF YOUR CODE"
    return numbers


def packed(files):
    """{path: text} as a hand-out has it."""
    return {path: sealed.packed(text, path) for path, text in sorted(files.items())}


def unpacked(texts, root):
    """{path: text} of what these texts include, in a hand-out."""
    place = root / "common/classroom" / PACKED
    if not place.exists():
        return {}
    known = json.loads(place.read_text())
    return {path: sealed.unpacked(known[path], path) for text in texts for path in INCLUDED.findall(text) if path in known}


def lay_out(files, folder):
    """Where the compiler looks for them."""
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)


def take_away(folder):
    shutil.rmtree(folder / "given", ignore_errors=True)
