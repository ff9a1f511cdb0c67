"""A page taken apart by the standard library's parser, and the rules it must keep."""

from __future__ import annotations

import base64
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "source", "input"}


class Page(HTMLParser):
    """Elements, texts and nesting of a page; `problems` lists what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.problems: list[str] = []
        self._open: list[str] = []
        self._table: list[list[str]] | None = None
        self.feed(text)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self._open]
        self.tables = {
            name: [[cell.strip() for cell in row] for row in rows]
            for name, rows in self.tables.items()
        }
        self._check()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag == "table":
            self._table = self.tables.setdefault(dict(attrs).get("id") or "", [])
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th") and self._table:
            self._table[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {k: v or "" for k, v in attrs}))

    def handle_endtag(self, tag):
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> closes nothing")
            return
        self._open.pop()
        if tag == "table":
            self._table = None

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("script", "style"):
            self.words.append(data)
            if self._table and self._table[-1]:
                self._table[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def _check(self) -> None:
        known = [a["id"] for _, a in self.elements if "id" in a]
        self.problems += [
            f"id {name} is used twice" for name in set(known) if known.count(name) > 1
        ]
        for tag, a in self.elements:
            for key in ("src", "href", "srcset", "action"):
                address = a.get(key, "#")
                if not address.startswith(("#", "data:")):
                    self.problems.append(f"<{tag} {key}={address!r}> loads from elsewhere")
                if address.startswith("#") and address != "#" and address[1:] not in known:
                    self.problems.append(f"{address} leads nowhere")
            for key in ("aria-labelledby", "aria-describedby", "data-table"):
                if key in a and a[key] not in known:
                    self.problems.append(f"{key}={a[key]!r} names nothing")
            if tag == "th" and a.get("scope") not in ("col", "row"):
                self.problems.append("a table head without scope")
            if tag == "img":
                if len(a.get("alt", "")) < 10:
                    self.problems.append("a picture without a text")
                kind, _, code = a["src"].partition(",")
                data = base64.b64decode(code, validate=True)
                if kind != "data:image/png;base64" or data[:8] != b"\x89PNG\r\n\x1a\n":
                    self.problems.append("a picture that is no PNG")
            if any(key.startswith("on") for key in a):
                self.problems.append(f"<{tag}> has a script in an attribute")
