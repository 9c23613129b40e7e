"""Puts the real output of the ladder into README.md, between the comments that mark each piece.

  python3 docs/refresh_readme.py            runs the built program and rewrites README.md
  python3 docs/refresh_readme.py --check    fails if README.md says anything but times that the program would not say

What it says about speed comes from recorded results, see bench_readme.py; nothing, as long as there are none.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

import bench_readme

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/common/cli/ladder"


def output_of(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout


def fenced(text):
    return "```\n" + "\n".join(line.rstrip() for line in text.splitlines()) + "\n```"


def pieces():
    """Name of each marked place in README.md, and the Markdown that belongs there."""
    tour = output_of("run", "--device", "cpu")
    table = re.search(r"^The ladder\n\n(.*?)\n\n", tour, re.MULTILINE | re.DOTALL).group(1)
    rung = re.search(r"^Phase 3 .*?(?=\n\nPhase 4)", tour, re.MULTILINE | re.DOTALL).group(0)
    overflow = output_of("overflow", "--profile", "rtx5060ti").split("\n\nScheme B")[0]
    profile = re.search(r"^    fa2_forward_kernel.*", output_of("profile", "3"), re.MULTILINE | re.DOTALL).group(0)
    return {"tour": fenced(table), "rung": fenced(rung), "overflow": fenced(overflow),
            "profile": fenced(textwrap.dedent(profile)), "bench": bench_readme.section(ROOT)}


def without_times(text):
    """Times differ from run to run; so does the width of their column."""
    text = re.sub(r"\b\d+(\.\d+)? (us|ms|s)\b", "TIME", text)
    return re.sub(r" +", " ", text)


def main(check):
    readme = ROOT / "README.md"
    before = after = readme.read_text()
    for name, text in pieces().items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        block = text + "\n" if text else ""
        after = marked.sub(lambda m: m.group(1) + block + m.group(2), after)
    if not check:
        readme.write_text(after)
    elif without_times(before) != without_times(after):
        sys.exit("README.md does not show what the program prints: run python3 docs/refresh_readme.py")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
