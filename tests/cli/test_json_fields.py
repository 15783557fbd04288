"""The page about JSON lists each field that commands print, and no others."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import integrity
from support.cli import Box, JsonObject

PAGE = (Path(__file__).parents[2] / "docs/json.md").read_text(encoding="utf-8")
PACKAGE = Path(integrity.__file__).parent
OF_EVERY_OBJECT = {"type", "schema"}
CONFIG = """
[[root]]
path = "{0}/photos"
policy = "archive"

[[copy]]
name = "nightly"
of = "{0}/photos"
url = "{0}/backup"
"""
CHECKED = (
    *("finding", "summary", "note", "root", "copy", "service", "alerts", "status"),
    *("file", "gate", "repair_plan", "repair", "error", "difference"),
)


def find_documented() -> dict[str, set[str]]:
    """Return the fields of each type: a section names types, a row fields, with the type where there are several."""
    found = defaultdict[str, set[str]](set)
    for section in PAGE.split("\n### ")[1:]:
        types = re.findall(r"`(\w+)`", section.splitlines()[0])
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
            for name in re.findall(r"`([\w.]+)`", row):
                kind, _, field = name.rpartition(".")
                found[kind or types[0]].add(field)
    return found


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Damage a file of two, and ask every command that answers with objects; return the fields of each type."""
    folder = tmp_path_factory.mktemp("json")
    box = Box(folder / "home")
    box.configure(CONFIG.format(folder))
    for name in ("photos/a.txt", "photos/b.txt", "backup/a.txt", "backup/b.txt", "backup/extra.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"content of {name[-5:]}")
    box.run("scan", expect=0)
    file = folder / "photos/a.txt"
    file.write_text("changed")
    found = defaultdict[str, set[str]](set)
    for command in (
        ("compare", "--with", "nightly"), ("compare", "--blocks", file, "--with", "nightly"),
        ("status",), ("findings",), ("explain", file), ("gate", folder / "photos"),
        ("repair", file), ("repair", file, "--apply"), ("scan", folder / "missing"),
    ):  # fmt: skip
        for each in box.run("--json", *command).objects:
            found[str(each["type"])] |= fields_of(each)
    return found


def fields_of(each: JsonObject) -> set[str]:
    return {name for name in each if not name.endswith("_b64")} - OF_EVERY_OBJECT


@pytest.mark.parametrize("kind", CHECKED)
def test_documented_fields_are_printed(kind: str, printed: dict[str, set[str]]) -> None:
    """Each of them, and no field is printed that the page does not list."""
    assert find_documented()[kind] == printed[kind]


def test_each_type_is_named() -> None:
    """Also those whose fields are not listed one by one."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "cli").glob("*.py"))

    assert set() == {kind for kind in re.findall(r'\.give\(\s*"(\w+)"', sources) if f"`{kind}`" not in PAGE}
