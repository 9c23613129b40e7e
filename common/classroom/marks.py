"""What a learner sees of a kernel, and what stays away: the marks in its source.

    // BEGIN SOLUTION online_update: m_new, the old sums under it, P_ij and l_i
    …                                                     the solution, compiled and tested like all else
    //= const float rescale = 1.0f;                       (perhaps) what stands there instead, where a starting point needs
    // END SOLUTION online_update                         it to compile

The words behind the colon are what the learner is asked for. A file may have several marks, not one inside another; several
pieces may bear one name, and are one solution. Whoever only reads the kernel reads the first line as a heading.
"""

import dataclasses
import re

BEGIN = re.compile(r"^(\s*)// BEGIN SOLUTION (\w+): (.+)$")
END = re.compile(r"^\s*// END SOLUTION (\w+)$")
INSTEAD = re.compile(r"^\s*//= ?(.*)$")
ANY = re.compile(r"//\s*(BEGIN|END)\s+SOLUTION|//=")


class MarkError(Exception):
    """A mark that cannot be understood, with its line."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """A stretch of lines. `name` is None outside of marks."""
    name: str | None
    asked_for: str
    margin: str
    lines: list    # of the solution
    instead: list  # in the place of them, without margin


def pieces(text):
    """The file as a list of Piece, without the lines that are marks."""
    found, outside, inside = [], [], None
    for number, line in enumerate(text.splitlines(), 1):
        begin, end, instead = BEGIN.match(line), END.match(line), INSTEAD.match(line)
        if begin:
            if inside:
                raise MarkError(f"line {number}: a solution begins inside {inside.name}")
            found.append(Piece(None, "", "", outside, []))
            inside, outside = Piece(begin[2], begin[3], begin[1], [], []), []
        elif end:
            if not inside or end[1] != inside.name:
                raise MarkError(f"line {number}: {end[1]} ends, but {inside.name if inside else 'nothing'} has begun")
            found.append(inside)
            inside = None
        elif instead and inside:
            inside.instead.append(instead[1])
        elif ANY.search(line):
            raise MarkError(f"line {number}: not a mark as they are written: {line.strip()}")
        else:
            (inside.lines if inside else outside).append(line)
    if inside:
        raise MarkError(f"{inside.name} has begun, and does not end")
    return [*found, Piece(None, "", "", outside, [])]


def without(text, hidden):
    """The source without the named solutions, and without their marks: what stands in their place is ordinary text."""
    lines, instead, inside = [], [], False
    for line in text.splitlines():
        begin, end, stands_in = BEGIN.match(line), END.match(line), INSTEAD.match(line)
        if begin and begin[2] in hidden:
            inside, instead, margin = True, [], begin[1]
            lines.append(f"{margin}// Left out here, and not needed: {begin[3]}")
        elif end and inside:
            lines += [(margin + other).rstrip() for other in instead]
            inside = False
        elif not inside:
            lines.append(line)
        elif stands_in:
            instead.append(stands_in[1])
    return "".join(line + "\n" for line in lines)


def names(text):
    """The solutions in a file, in order."""
    return list(dict.fromkeys(piece.name for piece in pieces(text) if piece.name))


def solution(text):
    """The working kernel, without marks."""
    return "".join(line + "\n" for piece in pieces(text) for line in piece.lines)


def starting_point(text, removed):
    """The kernel without the named solutions, and without the marks of any other."""
    lines = []
    for piece in pieces(text):
        if piece.name not in removed:
            lines += piece.lines
            continue
        lines.append(f"{piece.margin}// YOUR CODE: {piece.asked_for}")
        lines += [(piece.margin + line).rstrip() for line in piece.instead]
        lines.append(f"{piece.margin}// END OF YOUR CODE")
    return "".join(line + "\n" for line in lines)


def solution_lines(text, removed):
    """The lines of the named solutions that say something, stripped: what a starting point must not contain."""
    return [line.strip() for piece in pieces(text) if piece.name in removed for line in piece.lines
            if len(re.sub(r"\W", "", line)) > 8]
