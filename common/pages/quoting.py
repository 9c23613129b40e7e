"""What of a source file a page may quote: a kernel without what is there for the tools and not for its reader."""

import re

import marks

WATCH = re.compile(r"\s*(?:(?:if|for) \(.*\) )?watch_\w+\(")
ARGUMENT = re.compile(r",\n\s*\[&\]\(.*\) \{ watch_\w+\(.*\); \}(?=\))")
HEAD = re.compile(r"\s*(?:(?:if|for|else if) \(.*\)|#pragma unroll)$")


def without_watches(lines):
    """Without the calls by which `./ladder trace` follows a kernel (common/attention/watch.cuh): a GPU's code has none of them.
    A loop or a condition whose only statement is one goes too, and so does a last argument that does nothing else."""
    kept, inside = [], False
    for line in lines:
        if inside or WATCH.match(line):
            if not inside:
                while kept and HEAD.match(kept[-1]):
                    kept.pop()
            inside = not line.rstrip().endswith(";")
        else:
            kept.append(line)
    return ARGUMENT.sub("", "\n".join(kept)).splitlines()


def quotable(file):
    """The lines of a file that a page may quote; those of a kernel also without the marks of its exercises. Raises marks.MarkError."""
    text = file.read_text()
    if file.suffix != ".cuh":
        return text.splitlines()
    return without_watches(marks.solution(text).splitlines())
