"""Holds a built site to its word: every link, anchor and picture leads somewhere, and nothing is loaded from a network.

  python3 common/site/check_links.py build/docs/html
"""

import collections
import html.parser
import pathlib
import re
import sys
import urllib.parse

LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("object", "data"), ("embed", "src"),
         ("source", "src"), ("video", "src"), ("audio", "src")}
LINKS = LOADS | {("a", "href"), ("area", "href")}
REMOTE = re.compile(r"(https?:)?//", re.IGNORECASE)


class Page(html.parser.HTMLParser):
    """What one page links to and loads, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.style = set(), [], [], ""
        self.in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.in_style = tag == "style"
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name == "style":
                self.style += f"{value};"
            elif (tag, name) in LINKS and value is not None:
                (self.loads if (tag, name) in LOADS else self.links).append((self.getpos()[0], value))

    def handle_data(self, data):
        if self.in_style:
            self.style += data

    def handle_endtag(self, _):
        self.in_style = False


def loaded_by_style(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return [url.strip("'\" ") for url in re.findall(r"url\(([^)]*)\)|@import\s+[\"']([^\"']+)", text) for url in url if url]


def problems(site):
    """What is wrong with the site, a line each."""
    site = pathlib.Path(site).resolve()
    read = {file: Page(file.read_text(errors="replace")) for file in sorted(site.rglob("*.html"))}
    found = collections.OrderedDict()

    def complain(file, what):
        found[f"{file.relative_to(site)}{what}"] = None

    def check(file, where, url):
        if re.match(r"(data|mailto|javascript|https?):", url):
            return
        path, _, anchor = url.partition("#")
        path = urllib.parse.unquote(path.partition("?")[0])
        goal = (file.parent / path).resolve() if path else file
        if not goal.exists():
            complain(file, f"{where}: {url}: there is no such file")
        elif goal.is_dir() and not (goal / "index.html").exists():
            complain(file, f"{where}: {url}: is a folder")
        elif goal.parent.name == "traces":
            return  # a trace's page reads its address as settings, see docs/trace.md
        elif anchor and goal in read and urllib.parse.unquote(anchor) not in read[goal].anchors:
            complain(file, f"{where}: {url}: the page has no such anchor")

    for file, page in read.items():
        for line, url in page.links:
            check(file, f":{line}", url)
        loads = page.loads + [(0, url) for url in loaded_by_style(page.style)]
        for line, url in loads:
            if REMOTE.match(url):
                complain(file, f":{line}: {url}: would be loaded from the network")
            else:
                check(file, f":{line}", url)
    for file in sorted(site.rglob("*.css")):
        for url in loaded_by_style(file.read_text(errors="replace")):
            if REMOTE.match(url):
                complain(file, f": {url}: would be loaded from the network")
            else:
                check(file, "", url)
    for file in sorted(site.rglob("*.svg")):
        text = file.read_text(errors="replace")
        for url in re.findall(r"<(?:image|use|script|style)\b[^>]*\bhref=\"([^\"]+)", text) + loaded_by_style(text):
            if REMOTE.match(url):
                complain(file, f": {url}: would be loaded from the network")
    return list(found)


if __name__ == "__main__":
    wrong = problems(sys.argv[1])
    print("\n".join(wrong), file=sys.stderr if wrong else sys.stdout, end="\n" if wrong else "")
    if wrong:
        sys.exit(1)
    print("every link leads somewhere, nothing is loaded from a network")
