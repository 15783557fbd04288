"""The pages of the manual, which the package has with it: their names and titles."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

_PACKAGE = "integrity.docs"


def find_manual_pages() -> dict[str, Traversable]:
    """Return the pages by their names, guides first, then kinds of findings."""
    top = resources.files(_PACKAGE)
    pages = [*top.iterdir(), *top.joinpath("findings").iterdir()]
    return {
        page.name.removesuffix(".md"): page
        for page in sorted(pages, key=lambda page: (str(page).split("/")[-2:-1], page.name))
        if page.name.endswith(".md") and page.name != "index.md"
    }


def read_title(page: Traversable) -> str:
    return next(line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))[2:]
