"""Doxygen's input filter for the code, whose comments follow conventions that Doxygen does not know.

  python3 common/site/code_filter.py FILE       writes the file to the standard output, line for line

  - A `///` comment holds for all declarations that follow it without an empty line between them, and a `///<` comment for
    all names that its line declares. The filter makes a group of them (DISTRIBUTE_GROUP_DOC); Doxygen alone would give the
    comment to the first and call the others undocumented.
  - A `///` comment with an empty line after it is the plan of its file: it becomes the file's own, and a kernel without a
    comment refers to it.
  - A paragraph that is set in by more than two columns, a layout or a table, keeps its columns.
  - The first sentence stands for the whole in lists (JAVADOC_AUTOBRIEF). Neither "et al. 2022" nor `./ladder` ends it: Doxygen
    thinks so, and gets the second without its dot.
"""

import os
import re
import sys

NOT_IN_GROUP = re.compile(r"""\s*(
    //|/\*|\#|\}|$|~|.*=\ delete;|(public|private|protected):|static_assert|friend\ (class|struct)|using\ namespace|extern\ "C"
    |(template\ <.*>\ *)?(inline\ )?(struct|class|enum|union|namespace)\b(?!.*\)))""", re.VERBOSE)
SEVERAL_NAMES = re.compile(r"(\s*)((?:[\w:<>*& ,]+?) \w+(?:\[\w+\])*(?:\{\}| = [\w.:-]+)?(?:, ?\w+(?:\[\w+\])*(?:\{\}| = [\w.:-]+)?)+;)"
                           r"\s*///< ?(.*)")
OPENED = re.compile(r"(\s*(?:/\*\*@\{\*/ )?)///(?!<)(.*)")
SET_IN = re.compile(r" {3,}(?![-*] |\d+\. )\S")
COMMENT = re.compile(r"\s*///(?!<)")
COMMENT_LINE = re.compile(r"(\s*)///(?!<)(.*)")


def code_of(line):
    """The line without strings and comments."""
    line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])+\'', '""', line)
    return re.sub(r"//.*|/\*.*?\*/", "", line).rstrip()


def end_of_declaration(lines, start):
    """Index of the last line of the declaration that starts at `start`; None if what stands there is not one."""
    if NOT_IN_GROUP.match(lines[start]) or "///<" in lines[start]:
        return None
    depth = 0
    for i in range(start, len(lines)):
        code = code_of(lines[i])
        depth += sum(code.count(c) for c in "({[") - sum(code.count(c) for c in ")}]")
        if depth < 0 or (not lines[i].strip() and depth == 0):
            return None
        if depth == 0 and code.endswith((";", "}")):
            return None if "///<" in lines[i] else i
        if depth == 0 and re.match(r"\s*(template\b.*)?\b(struct|class|enum|union|namespace)\b[^()]*$", code) and i > start:
            return None
    return None


def keep_columns(lines):
    """Makes blocks of what is set in after an empty line, and comments of another form of what holds such a block: in a ///
    comment Doxygen would show marks of its own beside the lines."""
    i = 0
    while i < len(lines):
        first = i
        said = []
        while i < len(lines) and (line := (OPENED if i == first else COMMENT_LINE).fullmatch(lines[i])):
            said.append(line[2])
            i += 1
        if with_blocks(said):
            indent = OPENED.fullmatch(lines[first])[1]
            lines[first] = f"{indent}/** {said[0].strip()}"
            lines[first + 1:i] = said[1:]
            lines[i - 1] += " */"
        i += not said


def with_blocks(said):
    """Marks the blocks in the lines of a comment. Returns whether there are any."""
    found, i = False, 1
    while i < len(said):
        if said[i - 1].strip() or not SET_IN.match(said[i]):
            i += 1
            continue
        found, last, said[i - 1] = True, i, " @verbatim"
        while i < len(said) and (not said[i].strip() or said[i].startswith("   ")):
            last = i if said[i].strip() else last
            i += 1
        if last + 1 < len(said) and not said[last + 1].strip():
            said[last + 1] = " @endverbatim"
        else:
            said[last] += " @endverbatim"
        i = last + 2
    return found


def say_whose_plan(lines, file):
    """Gives the plan to the file. Returns whether there is one."""
    first = next((i for i, line in enumerate(lines) if COMMENT.match(line)), None)
    if not first:
        return False
    last = first
    while COMMENT.match(lines[last]):
        last += 1
    if lines[last].startswith("// clang-format"):
        last += 1
    if lines[last].strip():
        return False
    lines[first - 1] = f"/// @file {file}"  # instead of an empty line, or a word to clang-format
    return True


def point_to_plan(lines, file):
    for i, line in enumerate(lines):
        if line.startswith("__global__") and lines[i - 1].startswith("template") and not COMMENT.match(lines[i - 2]):
            lines[i - 1] = f"/** The kernel whose plan opens {file}. */ {lines[i - 1]}"


def group(lines):
    """Makes one comment hold for several declarations."""
    i = 0
    while i < len(lines):
        if several := SEVERAL_NAMES.fullmatch(lines[i]):
            lines[i] = f"{several[1]}/**@{{*/ /** {several[3]} */ {several[2]} /**@}}*/"
        if not COMMENT.match(lines[i]):
            i += 1
            continue
        first = i
        while i < len(lines) and COMMENT.match(lines[i]):
            i += 1
        last, count, start = None, 0, i
        while start < len(lines) and (end := end_of_declaration(lines, start)) is not None:
            last, count, start = end, count + 1, end + 1
        if last is not None and (count > 1 or re.search(r"\w,\s*\w[^()]*;", code_of(lines[last]))):
            indent = re.match(r"\s*", lines[first])[0]
            lines[first] = f"{indent}/**@{{*/ {lines[first].lstrip()}"
            lines[last] = f"{lines[last]} /**@}}*/"
            i = last + 1


def filtered(text, file):
    lines = text.split("\n")
    lines = [re.sub(r"`\./", "`", re.sub(r"\bal\. (?=\d)", r"al.\\ ", line)) if COMMENT.match(line) else line for line in lines]
    if say_whose_plan(lines, file):
        point_to_plan(lines, file)
    group(lines)
    keep_columns(lines)
    return "\n".join(lines)


if __name__ == "__main__":
    with open(sys.argv[1]) as stream:
        sys.stdout.write(filtered(stream.read(), os.path.relpath(sys.argv[1])))
