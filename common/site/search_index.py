"""What the site's search finds: each section of the book, and each name of the reference."""

import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
LUNR = pathlib.Path("/usr/share/javascript/lunr/lunr.min.js")
HEADINGS = ("h1", "h2", "h3", "h4")
BLOCKS = ("p", "li", "td", "th", "tr", "div", "summary", *HEADINGS)


class Sections(html.parser.HTMLParser):
    """The sections of a page: {heading, anchor, text} each. A bold term with an anchor of its own, as the glossary has them, begins one too. Code
    boxes and lists of contents are not read."""

    def __init__(self, text):
        super().__init__()
        self.found, self.heading_open, self.passed_over, self.anchor = [], False, 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        classes = (attributes.get("class") or "").split()
        if self.passed_over:
            self.passed_over += tag in ("div", "nav")
        elif tag == "nav" or tag == "div" and "fragment" in classes:
            self.passed_over = 1
        elif tag in HEADINGS:
            self.heading_open = True
            self.found.append({"heading": "", "anchor": "", "text": ""})
        elif tag == "a" and "anchor" in classes:
            if self.heading_open:
                self.found[-1]["anchor"] = attributes["id"]
            else:
                self.anchor = attributes["id"]
        elif tag in ("b", "strong") and self.anchor:
            self.heading_open = True
            self.found.append({"heading": "", "anchor": self.anchor, "text": ""})
        elif tag != "p":
            self.anchor = ""

    def handle_endtag(self, tag):
        if self.passed_over:
            self.passed_over -= tag in ("div", "nav")
        elif tag in (*HEADINGS, "b", "strong"):
            self.heading_open, self.anchor = False, ""
        elif tag in BLOCKS and self.found:
            self.found[-1]["text"] += " "

    def handle_data(self, data):
        if self.found and not self.passed_over:
            self.found[-1]["heading" if self.heading_open else "text"] += data


def body(text):
    return text[text.index("<main"):text.index("</main>")]


def of_book(site, files):
    """The sections of the book's pages, of which `files` are the HTML files."""
    places = []
    for file in files:
        sections = Sections(body((site / file).read_text())).found
        page = " ".join(sections[0]["heading"].split())
        for section in sections:
            url = f"{file}#{section['anchor']}" if section["anchor"] else file
            places.append({"page": page, "heading": " ".join(section["heading"].split()), "text": " ".join(section["text"].split()), "url": url})
    return places


def of_reference(tags):
    """The types, functions and files that Doxygen's tag file names."""
    places = {}
    for compound in xml.etree.ElementTree.parse(tags).getroot().iter("compound"):
        kind, name = compound.get("kind"), compound.findtext("name")
        if kind in ("struct", "class", "file"):
            url = re.sub(r"(\.html)?$", ".html", compound.findtext("filename"), count=1)
            places[name] = {"page": f"Reference: {kind}", "heading": name, "text": "", "url": url}
        for member in compound.iter("member"):
            if member.get("kind") in ("function", "variable", "enumeration") and kind != "file":
                url = f"{member.findtext('anchorfile')}#{member.findtext('anchor')}"
                full = f"{name}::{member.findtext('name')}"
                places.setdefault(full, {"page": f"Reference: {member.get('kind')}", "heading": full, "text": "", "url": url})
    return list(places.values())


def write(folder, places):
    """The scripts that the pages load when somebody searches."""
    folder.mkdir(exist_ok=True)
    made = subprocess.run(["node", HERE / "search_index.js", LUNR], input=json.dumps(places), capture_output=True, text=True, check=True).stdout
    (folder / "index.js").write_text(made)
    shutil.copyfile(LUNR, folder / LUNR.name)
