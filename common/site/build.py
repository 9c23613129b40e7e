"""Builds the site: chapters and reference in OUTPUT/html, which a browser opens from the folder, without a network.

  python3 common/site/build.py [--output build/docs] [--doxygen PROGRAM] [--program LADDER]

Needed: the ladder program, doxygen, and MathJax as Debian and Ubuntu install it (libjs-mathjax). Used where they are: graphviz for diagrams, Debian's
doxygen-awesome-css for the looks; without it they are Doxygen's own, with theme.css. Doxygen's warnings are errors, and so
is a link to nowhere.
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
from xml.sax.saxutils import quoteattr

import check_links
import markdown_filter
import pages

ROOT = pages.ROOT
HERE = pathlib.Path(__file__).resolve().parent
AWESOME = pathlib.Path("/usr/share/doxygen-awesome-css")
AWESOME_STYLES = ("doxygen-awesome.css", "doxygen-awesome-sidebar-only.css", "doxygen-awesome-sidebar-only-darkmode-toggle.css")
AWESOME_SCRIPTS = {"doxygen-awesome-darkmode-toggle.js": "DoxygenAwesomeDarkModeToggle",
                   "doxygen-awesome-fragment-copy-button.js": "DoxygenAwesomeFragmentCopyButton",
                   "doxygen-awesome-interactive-toc.js": "DoxygenAwesomeInteractiveToc",
                   "doxygen-awesome-paragraph-link.js": "DoxygenAwesomeParagraphLink"}
CONTENTS_BESIDE = 1500  # pixels from which on a window has the table of contents beside the text
MATHJAX = pathlib.Path("/usr/share/javascript/mathjax")
MATHJAX_PARTS = ("MathJax.js", "extensions", "jax/element", "jax/input/TeX", "jax/output/SVG")
# Not in the reference are the program and the fuzzer, how phases describe themselves to both, the inside of the CPU machine, and what one machine
# has under the same names as another, where they are documented.
NOT_IN_REFERENCE = re.compile(
    r"common/(cli|fuzz|rung|training)/|common/simt/(counters|machine|memory)|common/simt/\w+/(bare_\w+|\w+_unchecked"
    r"|(atomics|cached_access|cluster|cluster_calls|early_launch|fast_exp2|launch|matrix_operand|mbarrier|named_barrier|roles|store_matrix|tensor_map|tma|warpgroup"
    r"|watch|wgmma)_cpu|(float16|launch|views|wgmma_texts)_cuda|atomic_access|block_queue|bulk_copies|copy_queue|crew|election|fault_handler|fmaxf"
    r"|launch_bounds|leniency|matrix_instructions|mbarriers|named_barriers|operand_\w+|product_\w+|race_advice|register_pool"
    r"|source_columns|store_matrix|tensor_box|warpgroup_products|wgmma_instructions|whole_warp)\.h")
LANGUAGES = {".h": ".cpp", ".cpp": ".cpp", ".cuh": ".cpp", ".cu": ".cpp", ".py": ".py"}
SHOWN_UP_TO = 200_000  # bytes; a longer file is copied as it is


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


def tab(kind, title, url="", inner=""):
    attributes = f"type={quoteattr(kind)} visible=\"yes\" title={quoteattr(title)}" + (f" url={quoteattr(url)}" if url else "")
    return f"<tab {attributes}>{inner}</tab>" if inner else f"<tab {attributes}/>"


def write_layout(doxygen, file):
    """Doxygen's layout with the book's own order in the navigation."""
    subprocess.run([doxygen, "-l", file], check=True, stdout=subprocess.DEVNULL)
    chapters, *others = [(title, [tab("user", pages.short_title(page), f"@ref {pages.label(page)}") for page in members])
                         for title, members in pages.sections()]
    reference = [tab("namespacelist", "Namespaces"), tab("classlist", "Types"), tab("filelist", "Files"),
                 tab("namespacemembers", "Functions and names")]
    inner = tab("mainpage", "Start") + "".join(chapters[1]) + "".join(
        tab("usergroup", title, "[none]", "".join(tabs)) for title, tabs in (*others, ("Reference", reference)) if tabs)
    text = file.read_text()
    text, changed = re.subn(r"<navindex>.*?</navindex>", lambda _: f"<navindex>{inner}</navindex>", text, flags=re.DOTALL)
    if changed != 1:
        raise Failed("doxygen -l wrote a layout without a <navindex>")
    file.write_text(text)


def version_of(doxygen):
    said = subprocess.run([doxygen, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(n) for n in re.findall(r"\d+", said)[:3])


def quoted(paths):
    return " ".join(f'"{path}"' for path in paths)


def configuration(doxygen, output):
    """The Doxyfile of this machine."""
    version = version_of(doxygen)
    styles = [AWESOME / name for name in AWESOME_STYLES] if awesome() else [HERE / "theme.css"]
    styles.append(HERE / "book.css")
    inputs = [ROOT / file for file in [*pages.all_pages(), *reference()]] + sorted((output / "sources").glob("*.md"))
    lines = [(HERE / "Doxyfile").read_text(),
             f"INPUT += {quoted(inputs)}",
             f'STRIP_FROM_PATH = "{ROOT}" "{output}"',
             f'OUTPUT_DIRECTORY = "{output}"',
             f'LAYOUT_FILE = "{output / "layout.xml"}"',
             f'GENERATE_TAGFILE = "{output / "tags.xml"}"',
             f"HTML_EXTRA_STYLESHEET = {quoted(styles)}",
             f"HAVE_DOT = {'YES' if shutil.which('dot') else 'NO'}",
             f"NUM_PROC_THREADS = {os.cpu_count()}"]
    lines.append("HTML_COLORSTYLE = LIGHT" if version >= (1, 9, 5) else "DOT_TRANSPARENT = YES")
    return "\n".join(lines)


def awesome():
    return all((AWESOME / name).exists() for name in (*AWESOME_STYLES, *AWESOME_SCRIPTS))


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


def neighbours(site):
    """Links to the page before and the page after, at the end of every chapter and of the pages around them."""
    order = [page for _, members in pages.sections()[:2] for page in members]
    for i, page in enumerate(order):
        links = []
        for other, name, arrow in ((i - 1, "previous", "← {}"), (i + 1, "next", "{} →")):
            if 0 <= other < len(order):
                text = html.escape(arrow.format(pages.title(order[other])))
                links.append(f'<a class="{name}" href="{pages.html_file(order[other])}">{text}</a>')
        file = site / pages.html_file(page)
        text = file.read_text()
        end = "</div><!-- contents -->"
        file.write_text(text.replace(end, f'{end}<nav class="neighbours">{"".join(links)}</nav>', 1))


def short(cell):
    """A class for a table's cell that should not be broken."""
    return " short" if len(re.sub(r"<[^>]*>", "", cell)) <= 26 else ""


def finished(text, resolve):
    """One HTML page with its links into the repository resolved, its pictures and formulas as they should be."""
    text = re.sub(r'(href|src)="repo/([^"#]*)', lambda m: f'{m.group(1)}="{resolve(html.unescape(m.group(2)))}', text)
    text = re.sub(r'<img ([^>]*?) ?style="pointer-events: none;" class="inline"', r'<img \1 class="figure"', text)
    text = re.sub(r'<t[dh] class="markdownTable\w+(?=">(.*?)</t[dh]>)', lambda m: m.group(0) + short(m.group(1)), text)
    for name in re.findall(r'<a href="#([\w-]+)">', text):  # Doxygen's summary names sections that it then leaves out
        if f'id="{name}"' not in text and f'name="{name}"' not in text:
            text = re.sub(rf'<a href="#{name}">[^<]*</a>(?: &#124;\s*)?', "", text)
    if not re.search(r"\\\(|\\\[", text):
        text = re.sub(r'<script type="text/x-mathjax-config">.*?</script>\s*<script[^>]*MathJax\.js[^>]*></script>', "", text, flags=re.DOTALL)
    text = re.sub(r'(<span class="together">[(\[]?) (?=\\\()', r"\1", text)  # Doxygen sets a space before each formula
    text = text.replace('id="MSearchResults">', 'id="MSearchResults" title="What the search found">', 1)
    text = text.replace('<li class="footer">', f'<li class="footer">Code: <a href="{resolve("LICENSE")}">MIT</a>. Chapters and figures: '
                        f'<a href="{resolve("LICENSE-docs")}">CC BY 4.0</a>. ', 1)
    if awesome():
        scripts = "".join(f'<script src="{name}"></script>' for name in AWESOME_SCRIPTS)
        starts = "".join(f"{name}.init();" for name in AWESOME_SCRIPTS.values())
        text = text.replace("</head>", f"{scripts}<script>{starts}</script>\n</head>", 1)
    return text


def leave_room_for_code(style):
    """Has the table of contents above the text, folded, in a window that is not wide enough for 120 columns of code beside it."""
    text = style.read_text()
    for narrow, wide in (("(max-width: 999px)", f"(max-width: {CONTENTS_BESIDE - 1}px)"), ("(min-width: 1000px)", f"(min-width: {CONTENTS_BESIDE}px)")):
        if narrow not in text:
            raise Failed(f"{style.name} has no {narrow} any more: where does it put the table of contents?")
        text = text.replace(narrow, wide)
    style.write_text(text)


def finish(output, made):
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

    neighbours(site)
    for file in sorted(site.glob("*.html")):
        text = file.read_text()
        file.write_text(finished(text, resolve))
    tree = site / "navtree.js"
    if tree.exists():
        tree.write_text(re.sub(r"""(<img src="'\+relpath\+'sync_o\w+\.png") title=""", r'\1 alt="" title=', tree.read_text()))
    if awesome():
        for name in AWESOME_SCRIPTS:
            shutil.copyfile(AWESOME / name, site / name)
        leave_room_for_code(site / AWESOME_STYLES[0])
    for part in MATHJAX_PARTS:
        if not (MATHJAX / part).exists():
            raise Failed(f"formulas need MathJax: {MATHJAX / part} is missing (Debian, Ubuntu: libjs-mathjax)")
        if (MATHJAX / part).is_dir():
            shutil.copytree(MATHJAX / part, site / "mathjax" / part, dirs_exist_ok=True)
        else:
            (site / "mathjax").mkdir(exist_ok=True)
            shutil.copyfile(MATHJAX / part, site / "mathjax" / part)


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


def build(output, doxygen, program):
    if not shutil.which(doxygen):
        raise Failed("there is no doxygen (Debian, Ubuntu: sudo apt-get install doxygen graphviz doxygen-awesome-css libjs-mathjax)")
    output.mkdir(parents=True, exist_ok=True)
    step(1, "reading the pages")
    dead = [link for page in pages.all_pages() for link in markdown_filter.dead_links((ROOT / page).read_text(), page)]
    if dead:
        raise Failed("links to nowhere:\n" + "\n".join(dead))
    made = write_source_pages(output / "sources")
    write_layout(doxygen, output / "layout.xml")
    step(2, "Doxygen")
    run_doxygen(doxygen, output)
    step(3, "links, formulas, pictures")
    finish(output, made)
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
