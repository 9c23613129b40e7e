"""Builds the site: chapters and reference in OUTPUT/html, which a browser opens from the folder, without a network.

  python3 common/site/build.py [--output build/docs] [--doxygen PROGRAM] [--program LADDER]

Needed: the ladder program, and Debian's or Ubuntu's doxygen, doxygen-awesome-css for the looks, nodejs with libjs-katex, fonts-lmodern,
python3-fonttools and python3-brotli for formulas, libjs-lunr for the search. Used where it is: graphviz for diagrams. Doxygen's warnings are
errors, and so is a link to nowhere.
"""

import argparse
import functools
import html
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import check_links
import formulas
import markdown_filter
import pages
import search_index
import shell

ROOT = pages.ROOT
HERE = pathlib.Path(__file__).resolve().parent
AWESOME = pathlib.Path("/usr/share/doxygen-awesome-css")
AWESOME_STYLE = AWESOME / "doxygen-awesome.css"
# Not in the reference are the program and the fuzzer, how phases describe themselves to both, the inside of the CPU machine, and what one machine
# has under the same names as another, where they are documented.
NOT_IN_REFERENCE = re.compile(
    r"common/(cli|fuzz|rung|training)/|common/simt/(counters|machine|memory)|common/simt/\w+/(bare_\w+|\w+_unchecked"
    r"|(atomics|cached_access|cluster|cluster_calls|early_launch|fast_exp2|launch|matrix_operand|mbarrier|named_barrier|roles|store_matrix|tensor_map|tma|warpgroup"
    r"|watch|wgmma)_cpu|(float16|launch|views|wgmma_texts)_cuda|atomic_access|block_queue|bulk_copies|copy_queue|crew|election|fault_handler|fmaxf"
    r"|launch_bounds|leniency|matrix_instructions|mbarriers|named_barriers|operand_\w+|product_\w+|race_advice|register_pool"
    r"|source_columns|store_matrix|tensor_box|warpgroup_products|wgmma_instructions|whole_warp)\.h")
LANGUAGES = {".h": ".cpp", ".cpp": ".cpp", ".cuh": ".cpp", ".cu": ".cpp", ".py": ".py"}
# What Doxygen's and doxygen-awesome's style sheets have rules for, and shell.py has replaced.
ABSENT = re.compile(r"#(?:nav-|side-nav|main-|MSearch|titlearea|project|doc-content|powerTip)|\.(?:sm-dox|SR|SelectItem|SelectionMark|nav|tab|ui-|toc|ttc|ttname)"
                    r"|doxygen-awesome-|div\.toc|main-menu")
SHOWN_UP_TO = 140_000  # bytes: its page is 1.6 times as long, and loads 300 KiB at most; a longer file is copied as it is


class Failed(Exception):
    """What went wrong, for the reader's eyes."""


def step(number, what):
    print(f"[{number}/6] {what}", flush=True)


# --- what Doxygen is given --------------------------------------------------------------------------------------------


def source_page(file):
    """Markdown of a page that shows a file or lists a folder of the repository; nothing if the file is for other programs."""
    path = ROOT / file
    name = f"# {file} {{#{source_label(file)}}}\n\n"
    if path.is_dir():
        entries = sorted(path.iterdir(), key=lambda e: (e.is_file(), e.name))
        return name + "\n".join(f"- `{e.name}{'/' if e.is_dir() else ''}`" for e in entries if not e.name.startswith((".", "__")))
    if path.stat().st_size > SHOWN_UP_TO or path.suffix in (".svg", ".png", ".html"):
        return ""
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return ""
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`{3,}", text)), 3)
    language = LANGUAGES.get(path.suffix, "")
    return f"{name}{ticks}{f'{{{language}}}' if language else ''}\n{text.rstrip()}\n{ticks}\n"


def source_label(file):
    return "source_" + re.sub(r"\W", "_", file)


@functools.cache
def reference():
    """The code that the reference covers: what phases, kernels and tests name."""
    files = {file.relative_to(ROOT).as_posix() for pattern in ("phase*/*", "common/**/*") for file in ROOT.glob(pattern)}
    return sorted(file for file in files if file.endswith((".h", ".cuh"))
                  and not NOT_IN_REFERENCE.match(file))


def write_source_pages(folder):
    """Pages for the files that the book links to and the reference does not have. Gives their names by file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = {}
    for page in pages.all_pages():
        for file in markdown_filter.files_named((ROOT / page).read_text(), page):
            text = "" if file in reference() or file in made else source_page(file)
            if text:
                made[file] = f"{source_label(file)}.html"
                (folder / f"{source_label(file)}.md").write_text(text)
    return made


def version_of(doxygen):
    said = subprocess.run([doxygen, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(n) for n in re.findall(r"\d+", said)[:3])


def quoted(paths):
    return " ".join(f'"{path}"' for path in paths)


def configuration(doxygen, output):
    """The Doxyfile of this machine."""
    version = version_of(doxygen)
    inputs = [ROOT / file for file in [*pages.all_pages(), *reference()]] + sorted((output / "sources").glob("*.md"))
    lines = [(HERE / "Doxyfile").read_text(),
             f"INPUT += {quoted(inputs)}",
             f'STRIP_FROM_PATH = "{ROOT}" "{output}"',
             f'OUTPUT_DIRECTORY = "{output}"',
             f'GENERATE_TAGFILE = "{output / "tags.xml"}"',
             f"HTML_EXTRA_STYLESHEET = {quoted([AWESOME_STYLE, HERE / 'book.css'])}",
             f"HAVE_DOT = {'YES' if shutil.which('dot') else 'NO'}",
             f"NUM_PROC_THREADS = {os.cpu_count()}"]
    lines.append("HTML_COLORSTYLE = LIGHT" if version >= (1, 9, 5) else "DOT_TRANSPARENT = YES")
    if version >= (1, 9, 8):
        lines.append("HTML_CODE_FOLDING = NO")
    return "\n".join(lines)


def run_doxygen(doxygen, output):
    shutil.rmtree(output / "html", ignore_errors=True)
    result = subprocess.run([doxygen, "-"], input=configuration(doxygen, output), text=True, cwd=ROOT, capture_output=True)
    warnings = result.stderr.replace(f"{ROOT}/", "").strip()
    if result.returncode != 0 or warnings:
        raise Failed(f"Doxygen's warnings are errors:\n{warnings}")


# --- what Doxygen leaves to do ----------------------------------------------------------------------------------------


def source_files(output):
    """The page with the source of each file of the reference."""
    found = {}
    for compound in xml.etree.ElementTree.parse(output / "tags.xml").getroot().iter("compound"):
        if compound.get("kind") == "file":
            name = (compound.findtext("path") or "") + compound.findtext("name")
            page = re.sub(r"(\.html)?$", "_source.html", compound.findtext("filename"), count=1)
            found[name.removeprefix(f"{ROOT}/")] = page
    return found


def used(rule):
    """A rule of a style sheet for those of its selectors that the site has elements for."""
    selectors = [selector for selector in rule.group(1).split(",") if not ABSENT.search(selector)]
    return f"{','.join(selectors)}{{{rule.group(2)}}}" if selectors else ""


def compact(style):
    """A style sheet without comments, indentation and what is for elements that the site has none of: half of Doxygen's."""
    licence = re.match(r"\s*/\*.*?\*/", style, flags=re.DOTALL)
    kept = licence.group(0) if licence and "license" in licence.group(0).lower() else ""
    style = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))
    return kept + re.sub(r"([^{}]+)\{([^{}]*)\}", used, style)


def finish(output, made):
    """Every page as the reader gets it, and what they share: styles, scripts, the font of the formulas, the search."""
    site = output / "html"
    sources = source_files(output)

    def resolve(file):
        if file in sources and (site / sources[file]).exists():
            return sources[file]
        if file in made:
            return made[file]
        copy = site / "repo" / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, copy)
        return f"repo/{file}"

    texts = {file: shell.finished(file.read_text(), file.name, resolve) for file in sorted(site.glob("*.html"))}
    math = formulas.drawn({formula for text in texts.values() for formula in formulas.found_in(text)})
    for file, text in texts.items():
        file.write_text(formulas.replaced(text, math))
    (site / formulas.STYLE).write_text(formulas.style(math.values()))
    for style in site.glob("*.css"):
        style.write_text(compact(style.read_text()))
    shutil.copyfile(HERE / "site.js", site / "site.js")
    book = [pages.html_file(page) for page in pages.all_pages()]
    search_index.write(site / "search", search_index.of_book(site, book) + search_index.of_reference(output / "tags.xml"))


def write_traces(site, program):
    """The runs that chapters show, as pages of their own."""
    for page in pages.all_pages():
        found = markdown_filter.traces((ROOT / page).read_text())
        if len(found) > 1:
            raise Failed(f"{page} shows {len(found)} traces; a page has room for one")
        for arguments in found:
            if not pathlib.Path(program).exists():
                raise Failed(f"{page} shows a run, and there is no {program}: ./ladder docs builds it")
            file = site / markdown_filter.trace_file(page)
            file.parent.mkdir(exist_ok=True)
            result = subprocess.run([program, "trace", *shlex.split(arguments), "-o", file], capture_output=True, text=True)
            if result.returncode != 0:
                raise Failed(f"{page}: ladder trace {arguments}\n{result.stderr}")


def missing(doxygen):
    """What is not installed, by the names of Debian's packages."""
    needed = {"doxygen": shutil.which(doxygen), "doxygen-awesome-css": AWESOME_STYLE.exists(), "libjs-lunr": search_index.LUNR.exists()}
    return [package for package, there in needed.items() if not there] + formulas.missing()


def build(output, doxygen, program):
    if missing(doxygen):
        raise Failed(f"the site needs what is not installed (Debian, Ubuntu: sudo apt-get install {' '.join(missing(doxygen))})")
    output.mkdir(parents=True, exist_ok=True)
    step(1, "reading the pages")
    dead = [link for page in pages.all_pages() for link in markdown_filter.dead_links((ROOT / page).read_text(), page)]
    if dead:
        raise Failed("links to nowhere:\n" + "\n".join(dead))
    made = write_source_pages(output / "sources")
    step(2, "Doxygen")
    run_doxygen(doxygen, output)
    step(3, "links, formulas, pictures, search")
    try:
        finish(output, made)
    except subprocess.CalledProcessError as problem:
        raise Failed(problem.stderr) from problem
    step(4, "the runs that chapters show")
    write_traces(output / "html", program)
    step(5, "checking every link")
    problems = check_links.problems(output / "html")
    if problems:
        raise Failed("links to nowhere:\n" + "\n".join(problems))
    step(6, "done")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/docs", help="folder (default: build/docs)")
    parser.add_argument("--doxygen", default="doxygen", metavar="PROGRAM")
    parser.add_argument("--program", default=ROOT / "build/common/cli/ladder", help="the ladder, for the runs that chapters show")
    arguments = parser.parse_args()
    try:
        build(arguments.output.resolve(), arguments.doxygen, arguments.program)
    except Failed as problem:
        sys.exit(f"error: {problem}")


if __name__ == "__main__":
    main()
