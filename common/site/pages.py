"""The pages of the site: in which order they are read, what Doxygen calls them, what their headings are called."""

import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
START = "README.md"
SECTIONS = (
    ("Chapters", ("docs/attention.md", "docs/primer.md", "phase*/README.md", "docs/beyond.md")),
    ("Around the ladder", tuple(f"docs/{name}.md" for name in (
        "hopper", "cpu_machine", "notation", "numerics", "glossary", "instructors", "algorithms", "counters", "results/README"))
        + ("docs/*.md", "docs/results/**/*.md")),
    ("Lab notes", ("docs/tuning/*.md",)),
    ("Exercises", ("phase*/**/*.md",)),
    ("Working on it", ("CONTRIBUTING.md", "docs/**/*.md", "common/**/*.md", "tests/**/*.md")),
)
FENCE = re.compile(r"(?:\s*>)*\s*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})")


@functools.cache
def sections(root=ROOT):
    """Title of each section and its pages, paths relative to the root; what an earlier pattern found is not repeated."""
    seen, found = {START}, []
    for title, patterns in SECTIONS:
        pages = []
        for pattern in patterns:
            for file in sorted(root.glob(pattern)):
                page = str(file.relative_to(root))
                if page not in seen:
                    seen.add(page)
                    pages.append(page)
        found.append((title, pages))
    return found


def all_pages(root=ROOT):
    return [START] + [page for _, pages in sections(root) for page in pages]


def label(page):
    """What Doxygen calls a page, and the name of its HTML file: the folder of a chapter, primer, results, contributing."""
    if page == START:
        return "index"
    name = page.removesuffix(".md").removesuffix("/README").removeprefix("docs/")
    return name.replace("/", "_").lower()


def html_file(page):
    return f"{label(page)}.html"


def outside_fences(lines):
    """(line, whether it is prose) for each line; a fence and what is in it is not."""
    fence = ""
    for line in lines:
        ticks = FENCE.match(line)
        prose = not fence and not ticks
        if ticks:
            rest = line[ticks.end():]
            if not fence:
                # ```x``` on one line is a code span, not a fence
                if "`" in rest and ticks.group(1)[0] == "`":
                    prose = True
                else:
                    fence = ticks.group(1)
            elif ticks.group(1).startswith(fence) and not rest.strip():
                fence = ""
        yield line, prose


def slug(heading, taken):
    """The anchor that code hosts give to a heading; `taken` holds those of the page so far."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>]*>|[`*$\\{}^]", "", text).strip().lower()
    name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
    count = taken.get(name, 0)
    taken[name] = count + 1
    return f"{name}-{count}" if count else name


def title(page, root=ROOT):
    """The first heading as plain text."""
    for line, prose in outside_fences((root / page).read_text().splitlines()):
        if prose and line.startswith("# "):
            return plain(line[2:])
    return page


def short_title(page, root=ROOT):
    """The title up to its first comma, for the navigation; of pages that are no phase's, up to a colon."""
    short = title(page, root).split(",")[0]
    return short if short.startswith("Phase") else short.split(": ")[0]


def plain(text):
    """A line of Markdown without its marks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text.strip())
    return re.sub(r"[`*$]", "", text)
