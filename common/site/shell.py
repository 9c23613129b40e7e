"""What surrounds the text of each page of the site, and how Doxygen's HTML becomes the page that the reader gets."""

import functools
import html
import re

import formulas
import pages

REFERENCE = (("namespaces.html", "Namespaces"), ("annotated.html", "Types"), ("files.html", "Files"), ("namespacemembers.html", "Functions and names"))
LAZY_FROM = 2  # pictures before it are loaded with the page


def entry(file, title, current):
    here = ' aria-current="page"' if file == current else ""
    return f'<li><a href="{file}"{here}>{html.escape(title)}</a></li>'


@functools.cache
def sections():
    """Title of each section of the navigation, and the file and title of each of its pages."""
    return [(title, [(pages.html_file(page), pages.short_title(page)) for page in members]) for title, members in pages.sections()]


@functools.cache
def navigation(current):
    """The navigation for the page with this file: the chapters, then everything else, folded."""
    (_, chapters), *others = sections()
    parts = [f'<ul>{"".join(entry(*page, current) for page in [("index.html", "Start"), *chapters])}</ul>']
    for title, members in [*others, ("Reference", REFERENCE)]:
        if members:
            is_open = " open" if any(file == current for file, _ in members) else ""
            parts.append(f'<details{is_open}><summary>{html.escape(title)}</summary><ul>{"".join(entry(*page, current) for page in members)}</ul></details>')
    return f"""<nav class="book" aria-label="The book">
<div class="brand"><a href="index.html">FlashLadder</a><button id="theme" type="button" hidden>Light or dark</button>\
<button id="menu" type="button" aria-controls="pages" aria-expanded="true" hidden>Menu</button></div>
<div id="pages">
<div role="search" hidden><label for="query">Search <kbd>/</kbd></label><input id="query" type="search" autocomplete="off" spellcheck="false"></div>
{"".join(parts)}
</div>
</nav>
<section id="results" aria-label="What the search found" hidden><p id="count" role="status"></p><ol id="found"></ol></section>"""


def neighbours(file):
    """Links to the page before and the page after, at the end of every chapter and of the pages around them."""
    order = [page for _, members in pages.sections()[:2] for page in members]
    files = [pages.html_file(page) for page in order]
    if file not in files:
        return ""
    links = []
    for i, name, arrow in ((files.index(file) - 1, "previous", "← {}"), (files.index(file) + 1, "next", "{} →")):
        if 0 <= i < len(order):
            links.append(f'<a class="{name}" href="{files[i]}">{html.escape(arrow.format(pages.title(order[i])))}</a>')
    return f'<nav class="neighbours" aria-label="Before and after">{"".join(links)}</nav>'


def short(cell):
    """A class for a table's cell that should not be broken."""
    return " short" if len(re.sub(r"<[^>]*>", "", cell)) <= 26 else ""


def picture(image, number):
    """A picture of the text: no link of Doxygen's, and not loaded before the reader comes near it."""
    image = image.replace(' style="pointer-events: none;" class="inline"', ' class="figure"')
    return image.replace("<img ", '<img loading="lazy" ', 1) if number >= LAZY_FROM else image


def with_headings(text):
    """The title is the one heading of the first level; Doxygen has it as a box, and begins the text's headings at the first."""
    if re.search(r'<div class="textblock">.*<h1>', text, flags=re.DOTALL):
        text = re.sub(r"<(/?)h([1-5])(?=[ >])", lambda m: f"<{m.group(1)}h{int(m.group(2)) + 1}", text)
    text = re.sub(r'<div class="title">(.*?)</div>', r'<h1 class="title">\1</h1>', text, count=1, flags=re.DOTALL)
    if "<h1" not in text:  # an alphabetical list of the reference
        name = re.search(r"<title>(.*?) · ", text).group(1)
        text = re.sub(r"<h3>(<a id=.*?)</h3>", r"<h2>\1</h2>", text)
        text = text.replace('<div class="contents">', f'<div class="header"><h1 class="title">{name}</h1></div>\n<div class="contents">', 1)
    return text


def with_contents(text):
    """The list of a page's sections as a landmark that folds."""
    return re.sub(r'<div class="toc"><h\d>.*?</h\d>(.*?)</div>\s*(?=<div class="textblock">)',
                  r'<nav class="here" aria-label="On this page"><details open><summary>On this page</summary>\1</details></nav>', text,
                  count=1, flags=re.DOTALL)


def without_scripts(text):
    """What Doxygen's scripts would fold is open: the members that a type inherits, the levels of a list."""
    text = re.sub(r'<a href="[^"]*">(<span class="icondoc"></span>)</a>', r"\1", text)  # the name beside it is a link too
    text = re.sub(r'<div class="levels">.*?</div>', "", text)
    text = re.sub(r'<span (?:id="[^"]*" )?class="arrow"[^>]*>[^<]*</span>', "", text)
    return re.sub(r' onclick="[^"]*"(?:><img src="closed\.png" alt="-"/>)?', lambda m: ">" if "<img" in m.group(0) else "", text)


def finished(text, file, resolve):
    """One HTML page. `resolve` gives the address of a file of the repository."""
    text = re.sub(r'(href|src)="repo/([^"#]*)', lambda m: f'{m.group(1)}="{resolve(html.unescape(m.group(2)))}', text)
    text = with_contents(without_scripts(with_headings(text)))
    number = iter(range(len(text)))
    text = re.sub(r'<img [^>]*style="pointer-events: none;" class="inline"[^>]*>', lambda m: picture(m.group(0), next(number)), text)
    text = re.sub(r'<t[dh] class="markdownTable\w+(?=">(.*?)</t[dh]>)', lambda m: m.group(0) + short(m.group(1)), text)
    text = text.replace('<iframe scrolling="no"', '<iframe title="Diagram" loading="lazy" scrolling="no"')
    text = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", text)
    for name in re.findall(r'<a href="#([\w-]+)">', text):  # Doxygen's summary names sections that it then leaves out
        if f'id="{name}"' not in text and f'name="{name}"' not in text:
            text = re.sub(rf'<a href="#{name}">[^<]*</a>(?: &#124;\s*)?', "", text)
    text = re.sub(r'(<span class="together">[(\[]?) (?=\\\()', r"\1", text)  # Doxygen sets a space before each formula
    if formulas.found_in(text):
        text = text.replace("</head>", f'<link href="{formulas.STYLE}" rel="stylesheet"/>\n</head>', 1)
    end = "</div><!-- contents -->"
    text = text.replace(end, end + neighbours(file), 1)
    text = text.replace("<!-- navigation -->", navigation(file), 1)
    return text.replace("<!-- licences -->", f'<footer>Code: <a href="{resolve("LICENSE")}">MIT</a>. Chapters and figures: '
                        f'<a href="{resolve("LICENSE-docs")}">CC BY 4.0</a>. Made with Doxygen.</footer>', 1)
