"""The manual builds as a site, without a network and without a warning, and its links lead somewhere."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from support.generated import DOCUMENTS, ROOT
from support.machine import need_programs


class Page(HTMLParser):
    """The links of a page, those that a browser loads by itself, and what links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)
                self.loaded += [] if tag == "a" else [value]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site where no network can be reached, if this user may make such a place."""
    need_programs("mandoc")
    folder = tmp_path_factory.mktemp("site")
    build = [
        "sphinx-build",
        "-W",
        "--keep-going",
        "-q",
        "-c",
        "packaging/site",
        "-d",
        folder / "cache",
        "docs",
        folder / "html",
    ]
    offline = ["unshare", "--net", "--map-root-user"]
    is_possible = subprocess.run([*offline, "true"], capture_output=True, check=False).returncode == 0
    command = [*(offline if is_possible else []), sys.executable, "-m", "sphinx", *build[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    return folder / "html"


def test_each_document_is_a_page(site: Path) -> None:
    """Every one below docs/ is reached from the index, or Sphinx would warn of it."""
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html") for path in DOCUMENTS if ROOT / "docs" in path.parents
    }

    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_links_lead_somewhere(site: Path) -> None:
    """Pages, anchors in them, pictures, style sheets; nothing is fetched from elsewhere."""
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(link)
            place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if "://" in link or link.startswith("mailto:"):
                continue
            if not place.exists() or (anchor and place in pages and unquote(anchor) not in pages[place].anchors):
                wrong.append((str(path.relative_to(site)), link))

    assert len(pages) > 30
    assert [] == wrong


def test_nothing_is_loaded_from_a_network(site: Path) -> None:
    """The site can be read on a machine without one: only what a reader clicks leads out of it."""
    loaded = Page(site / "index.html").loaded

    assert [] == [link for link in loaded if "://" in link]
    assert [] == [path.name for path in site.rglob("*.css") if "@import" in path.read_text(encoding="utf-8")]


def test_man_pages_are_part_of_it(site: Path) -> None:
    """As HTML, with a list."""
    assert "integrity.toml.5.html" in (site / "man/index.html").read_text(encoding="utf-8")
    assert "verify_every" in (site / "man/integrity.toml.5.html").read_text(encoding="utf-8")
