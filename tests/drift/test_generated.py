"""The documents say what the code says, where they repeat it."""

from __future__ import annotations

from pathlib import Path

import pytest

from integrity.kinds import TABLE
from support.generated import DOCUMENTS, ROOT, WRITERS, find_blocks, renew


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_parts_are_those_of_the_code(document: Path) -> None:
    """The test writes the present ones into the document when it fails: look at the difference, and commit it."""
    former = document.read_text(encoding="utf-8")
    now = renew(former)
    if former != now:
        document.write_text(now, encoding="utf-8")

    assert former == now


def test_each_generated_part_stands_somewhere() -> None:
    """A page for each kind of finding, and each table in one document."""
    found = sorted(name for document in DOCUMENTS for name in find_blocks(document.read_text(encoding="utf-8")))

    of_kinds = [
        f"{word} {entry.kind.value}" for entry in TABLE for word in ("kind", "steps") if entry.steps or word == "kind"
    ]
    assert sorted([*WRITERS, *of_kinds]) == found


def test_each_kind_has_a_page_of_its_own() -> None:
    """Findings name it: see ``integrity manual``. A page that belongs to no kind is none of them."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/findings").glob("*.md")}

    assert {"index", *(entry.kind.value for entry in TABLE)} == set(pages)
    for entry in TABLE:
        assert pages[entry.kind.value].startswith(f"# {entry.headline}\n")
        assert f"kind {entry.kind.value}" in find_blocks(pages[entry.kind.value])
