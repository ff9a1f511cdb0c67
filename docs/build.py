"""Build the site: ``python docs/build.py``, with the extra ``docs`` installed.

Runs the scripts of ``examples/`` that changed, renders all pages to ``build/site`` and checks every
link within the site. Warnings and broken links are errors. Needs no network. ``--fresh`` runs all
scripts, ``--pages`` none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent
SITE = HERE.parent / "build" / "site"
MADE = [
    HERE / "learn",
    HERE / "gallery",
    HERE / "api" / "generated",
    HERE / "api" / "backreferences",
]


class Links(HTMLParser):
    """Links, images and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record addresses and ids."""
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value is not None:
                self.targets.append(value)


def broken_links(site: Path) -> list[str]:
    """Return the broken internal links of a built site."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" in path.parts:  # the theme's templates
            continue
        pages[path.resolve()] = links = Links()
        links.feed(path.read_text(encoding="utf-8"))
    found = []
    for path, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if goal.is_dir():
                goal /= "index.html"
            there = goal.exists()
            if there and goal in pages and parts.fragment:
                there = unquote(parts.fragment) in pages[goal].places
            if not there:
                found.append(f"{path.relative_to(site.resolve())}: {target}")
    return found


def main(arguments: list[str]) -> int:
    """Build and check; return the exit code."""
    if "--fresh" in arguments:
        for folder in [*MADE, SITE]:
            shutil.rmtree(folder, ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(SITE.parent / "doctrees")]
    if "--pages" in arguments:
        options += ["-D", "plot_gallery=0"]
    code = subprocess.call([sys.executable, "-m", "sphinx", *options, str(HERE), str(SITE)])
    if code:
        return code
    found = broken_links(SITE)
    if "--pages" in arguments:  # output of the scripts is missing
        found = [line for line in found if not line.startswith(("learn/", "gallery/"))]
    for line in found:
        print("broken link:", line)
    if not found:
        n_pages = sum(1 for _ in SITE.rglob("*.html"))
        print(f"{SITE / 'index.html'}: {n_pages} pages, no broken links.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
