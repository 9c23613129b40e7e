"""Makes the figures of the chapters, docs/figures/*.svg.

  python3 common/figures/make.py              writes them all
  python3 common/figures/make.py NAME…        writes some
  python3 common/figures/make.py --check      fails if a figure is not what this script makes of the sources

Needs nothing but Python. The numbers come from the C++ sources (constants.py), the colours from palette.py.
"""

import argparse
import pathlib
import sys

import attention
import constants
import draw
import hopper
import palette
import primer
import rooms
import staircase

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/figures"


def figures():
    """The name of every figure, and the function that draws it."""
    drawings = attention.FIGURES | primer.FIGURES | hopper.FIGURES | staircase.FIGURES
    for phase in rooms.phases():
        if script := rooms.script(phase):
            drawings |= script.FIGURES
    return drawings


def stale(made):
    """What is wrong with the files that are there."""
    there = {path.stem: path.read_text() for path in FOLDER.glob("*.svg")}
    for name in sorted(made.keys() | there.keys()):
        if name not in there:
            yield f"docs/figures/{name}.svg is missing"
        elif name not in made:
            yield f"docs/figures/{name}.svg is made by nobody"
        elif made[name] != there[name]:
            yield f"docs/figures/{name}.svg is not what the sources say now"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to write; all if none is named")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file differs")
    options = parser.parse_args()

    try:
        palette.check()
        drawings = figures()
        if unknown := set(options.names) - drawings.keys():
            parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(drawings)}")
        wanted = drawings if options.check or not options.names else options.names
        made = {name: drawings[name]().svg() for name in wanted}
    except (constants.Missing, draw.FigureError, ValueError) as error:
        sys.exit(f"figures: {error}")

    if options.check:
        if problems := list(stale(made)):
            sys.exit("\n".join(problems) + "\nRun python3 common/figures/make.py, look at what changed, and commit it.")
        print(f"{len(made)} figures are what the sources say")
        return
    for name, svg in made.items():
        (FOLDER / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
