"""Doxygen's input filter for the pages: Markdown as code hosts read it becomes Markdown as Doxygen reads it.

  python3 common/site/markdown_filter.py PAGE       writes the page to the standard output

  $…$ and $$…$$              Doxygen's formulas, outside code
  headings                   get the anchors that code hosts give them
  <a id="…"></a>             an anchor of the writer's, such as that of a term in the glossary
  links to pages, headings   Doxygen's references, so that one to nowhere is a warning
  links to other files       repo/PATH, which build.py turns into the file's source page or a copy of the file
  pictures                   repo/PATH, of which build.py makes a copy
  <details>                  passed by Doxygen, which would close it at every paragraph
  comments                   left out
"""

import os
import re
import sys

import pages

ANY = r"(?:(?!\n[ \t]*\n).)"  # a character, but no end of a paragraph
MATH = r"(?<![\\$\w])\$(?=[^\s$])(?:[^$\\\n]|\\.|\n(?![ \t]*\n))*?(?<=[^\s\\])\$(?![\d$])"
# What is not prose: nothing in it is a link, a picture or a tag. The earliest wins, as on code hosts.
TRACE = re.compile(r"<!-- trace: (.+?) -->")
APART = re.compile(rf"""(?P<comment><!--.*?-->)
    |^(?P<indent>[ \t]*)\$\$(?P<display>(?:[^$]|\\\$)+?)\$\$[ \t]*$
    |\$`(?P<ticked>{ANY}+?)`\$
    |(?<!`)(?P<ticks>`+)(?!`){ANY}+?(?<!`)(?P=ticks)(?!`)
    |(?P<before>[(\[]?)(?P<math>{MATH})(?P<after>[.,;:!?)\]]*)
    |(?P<details></?details[^>]*>)
    |<summary>(?P<summary>.*?)</summary>""", re.DOTALL | re.MULTILINE | re.VERBOSE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^(\[[^\]]+\]:\s*)(\S+)(.*)$")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//")
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


def target(url, page, root=pages.ROOT):
    """What a link means on the site: a reference that Doxygen resolves, a file of the repository, or the link as it is."""
    if EXTERNAL.match(url):
        return url
    path, _, anchor = url.partition("#")
    file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if f"{file}/README.md" in pages.all_pages(root):
        file += "/README.md"
    if file in pages.all_pages(root):
        return f"@ref {pages.label(file)}--{anchor}" if anchor else f"@ref {pages.label(file)}"
    return f"repo/{file}" if (root / file).exists() else url


def traces(text):
    """The arguments of `ladder trace` for the runs that a page shows: <!-- trace: 3 --keys 128 -->"""
    return [found.group(1) for found in TRACE.finditer("\n".join(
        line for line, is_prose in pages.outside_fences(text.splitlines()) if is_prose))]


def trace_file(page):
    """Where the site keeps the run that a page shows."""
    return f"traces/{pages.label(page)}.html"


def files_named(text, page, root=pages.ROOT):
    """Files and folders of the repository that a page links to or shows, other than pages."""
    prose = APART.sub("", "\n".join(line for line, is_prose in pages.outside_fences(text.splitlines()) if is_prose))
    found = [target(m.group(3), page, root) for m in LINK.finditer(prose)]
    found += [target(m.group(2), page, root) for line in prose.splitlines() if (m := REFERENCE.match(line))]
    return sorted({url.removeprefix("repo/") for url in found if url.startswith("repo/")})


def inline_html(text):
    """A summary as HTML: Doxygen does not look at it."""
    text = re.sub(r"<(?!/?(code|b|i|em|strong|sub|sup)>)", "&lt;", re.sub(r"&(?!#?\w+;)", "&amp;", text.strip()))
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<em>\1</em>", text)
    return re.sub(MATH, lambda m: rf"\({m.group(0)[1:-1]}\)", text)


def dead_links(text, page, root=pages.ROOT):
    """Links of a page to files or headings that do not exist, a line each."""
    prose, found = APART.sub("", "\n".join(line if is_prose else "" for line, is_prose in pages.outside_fences(text.splitlines()))), []
    urls = [m.group(3) for m in LINK.finditer(prose)] + [m.group(2) for line in prose.splitlines() if (m := REFERENCE.match(line))]
    for url in urls:
        goal = target(url, page, root)
        if goal.startswith("@ref ") and "--" in goal:
            file = os.path.normpath(os.path.join(os.path.dirname(page), url.partition("#")[0])) if url[0] != "#" else page
            file += "/README.md" if (root / file).is_dir() else ""
            if url.partition("#")[2] not in anchors((root / file).read_text()):
                found.append(f"{page}: {url}: there is no such heading")
        elif goal == url and not EXTERNAL.match(url):
            found.append(f"{page}: {url}: there is no such file")
    return found


def anchors(text):
    """What a link may name after the #: headings below the title, and the writer's own anchors."""
    taken, found = {}, set(ANCHOR.findall(text))
    for line, is_prose in pages.outside_fences(text.splitlines()):
        if is_prose and (found_heading := HEADING.fullmatch(line)):
            name = pages.slug(found_heading.group(2), taken)
            if found_heading.group(1) != "#":
                found.add(name)
    return found


def for_doxygen(found, page):
    """What becomes of one piece that is not prose."""
    text = found.group(0)
    if found["comment"] and TRACE.fullmatch(text):
        return (f'@htmlonly[block]<iframe class="trace" title="A run of this kernel, to be played step by step" '
                f'data-src="{trace_file(page)}#embed"></iframe>'
                f'<p class="full-size"><a href="{trace_file(page)}" target="_blank">Open this run at full size</a></p>@endhtmlonly')
    if found["comment"]:
        return "\n" * text.count("\n")
    if found["display"]:
        return rf"{found['indent']}\f[{found['display']}\f]"
    if found["ticked"]:
        return rf"\f${found['ticked']}\f$"
    if found["math"]:
        formula = rf"{found['before']}\f${found['math'][1:-1]}\f${found['after']}"
        return f'<span class="together">{formula}</span>' if found["before"] or found["after"] else formula
    if found["details"]:
        return f"@htmlonly[block]{text}@endhtmlonly"
    if found["summary"]:
        return f"@htmlonly[block]<summary>{inline_html(found['summary'])}</summary>@endhtmlonly"
    # Doxygen takes `x' for a quotation, unless there are two ticks.
    return f"`{text}`" if "'" in text and len(found["ticks"]) == 1 else text


def prose(text, page, root):
    """One stretch of a page without fences."""
    kept = []

    def keep(found):
        kept.append(for_doxygen(found, page))
        return f"\0{len(kept) - 1}\0"

    text = APART.sub(keep, text)
    # Doxygen sees no bold and no italics next to code or a formula.
    text = re.sub(r"\*\*(?=\S)((?:(?!\n\n|\*\*).)+?)(?<=\S)\*\*", r"<b>\1</b>", text, flags=re.DOTALL)
    text = re.sub(r"(?<![*\w])\*(?=[^\s*])((?:(?!\n\n|\*).)*?\0(?:(?!\n\n|\*).)*?)(?<=\S)\*(?![*\w])", r"<em>\1</em>", text, flags=re.DOTALL)
    # Nor does it look for formulas between quotation marks.
    text = re.sub(r'"((?:(?!\n\n|").)*?\0(?:(?!\n\n|").)*?)"', r"&quot;\1&quot;", text, flags=re.DOTALL)
    text = ANCHOR.sub(lambda m: f"@anchor {pages.label(page)}--{m.group(1)} ", text)
    text = LINK.sub(lambda m: f"{m.group(1)}[{m.group(2)}]({target(m.group(3), page, root)})", text)
    text = "\n".join(REFERENCE.sub(lambda m: m.group(1) + target(m.group(2), page, root) + m.group(3), line)
                     for line in text.split("\n"))
    return re.sub("\0(\\d+)\0", lambda m: kept[int(m.group(1))], text)


def heading(line, page, taken):
    marks, text = HEADING.fullmatch(line).groups()
    name = f"{pages.label(page)}--{pages.slug(text, taken)}"
    if marks == "#":
        contents = "\n\n[TOC]\n" if page != pages.START else ""
        return f"# {text} {{#{'mainpage' if page == pages.START else pages.label(page)}}}{contents}"
    if page == pages.START:  # a section of the start page would stand in the navigation before the first chapter
        return f'<h{len(marks) - 1}>@anchor {name} {text}</h{len(marks) - 1}>'
    return f"{marks} {text} {{#{name}}}"


def filtered(text, page, root=pages.ROOT):
    made, stretch, taken, titled = [], [], {}, False

    def finish():
        made.append(prose("\n".join(stretch), page, root))
        stretch.clear()

    for line, is_prose in pages.outside_fences(text.splitlines()):
        if not is_prose:
            if stretch:
                finish()
            made.append(line)
        elif HEADING.fullmatch(line) and not (titled and line.startswith("# ")):
            titled = True
            stretch.append(heading(line, page, taken))
        else:
            stretch.append(line)
    if stretch:
        finish()
    return "\n".join(made) + "\n"


if __name__ == "__main__":
    file = os.path.relpath(os.path.abspath(sys.argv[1]), pages.ROOT)
    with open(sys.argv[1]) as stream:
        text = stream.read()
    sys.stdout.write(filtered(text, file) if file in pages.all_pages() else text)  # what build.py made is as it should be
