"""The documents name only what exists, and the maps of the code are complete."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from integrity import __version__
from integrity.catalog.copying import read_schema
from support.generated import DOCUMENTS
from support.readme_picture import PICTURE, VERSIONS, read_version

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "daemon/integrity"
NATIVE = ROOT / "native"
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
README_LINES = 180
PLACEHOLDER = "NAME"
"""Part of a path that stands for a name of the reader's choice."""


def find_section(title: str) -> str:
    """Return the text below one heading of the architecture."""
    return ARCHITECTURE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def find_names(text: str) -> list[str]:
    """Return the paths and words in backticks."""
    return re.findall(r"`([\w./*-]+)`", text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_somewhere(document: Path) -> None:
    """A link to a file or folder of the repository leads to one."""
    links = re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))

    assert [] == [link for link in links if "://" not in link and not (document.parent / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document: Path) -> None:
    """A file of the sources that is named with its path exists: from the root, or from the package."""
    names = re.findall(r"`(\w[\w./-]*/[\w./-]*\.(?:py|c|h|sh|toml|md))`", document.read_text(encoding="utf-8"))
    paths = [name for name in names if PLACEHOLDER not in name]

    assert [] == [path for path in paths if not ((ROOT / path).exists() or (PACKAGE / path).exists())]


def test_version_has_its_changes() -> None:
    """The newest version of the changelog is that of the program; a tag of the checkout is the same."""
    versions = re.findall(r"(?m)^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    tags = subprocess.run(
        ["git", "tag", "--points-at", "HEAD", "v*"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()

    assert __version__ == versions[0]
    assert all(tag == f"v{__version__}" for tag in tags)


def test_pictures_show_this_version() -> None:
    """They are made anew by ``support.readme_picture``, which says how; look at them before they are committed."""
    assert [__version__] * 2 == [read_version(PICTURE), read_version(VERSIONS)]


def test_readme_is_short() -> None:
    """Its reader has two minutes; details are in docs/."""
    text = re.sub(r"<!--.*?-->\n+", "", (ROOT / "README.md").read_text(encoding="utf-8"))

    assert len(text.splitlines()) <= README_LINES


def test_map_has_each_folder_of_the_package() -> None:
    """Each folder with modules is in the map, and nothing else is."""
    folders = {path.parent.relative_to(PACKAGE).as_posix() + "/" for path in PACKAGE.rglob("*/__init__.py")}
    cells = [line.split("|")[1] for line in find_section("Map of the package").splitlines() if line.startswith("| `")]

    assert folders == {name for cell in cells for name in find_names(cell)}


def test_map_has_each_file_of_the_c_core() -> None:
    """Each source is in the map, a header with its source or by itself; each file in the map exists."""
    files = {path.name for path in NATIVE.iterdir() if path.suffix in (".c", ".h")}
    named = {name for name in find_names(find_section("The C core")) if name.endswith((".c", ".h"))}

    assert set() == named - files
    assert set() == {name for name in files if name not in named and name[:-1] + "c" not in named}


def test_each_table_is_listed() -> None:
    """The catalog has the tables that are described, and no others."""
    rows = [line.split("|")[1] for line in find_section("The catalog").splitlines() if line.startswith("| `")]

    tables = re.findall(r"^CREATE TABLE (\w+)", read_schema(), re.MULTILINE)
    assert {*tables} == {name for row in rows for name in find_names(row)}


def test_layers_are_those_of_import_linter() -> None:
    """The list of layers is the one that is checked."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["integrity"])
    listed = [line.strip() for line in find_section("Layers").splitlines() if line.startswith("    ")]

    assert [layer.replace("(", "").replace(")", "") for layer in layers] == listed


def test_hooks_run_what_the_tests_run() -> None:
    """The hooks for commits call the tools of test_style.py, with the same options."""
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")

    commands = ["ruff check", "ruff format --check", "mypy", "lint-imports --no-cache"]
    assert commands == re.findall(r"^ +entry: (.*)$", text, re.MULTILINE)
    assert {"system"} == set(re.findall(r"^ +language: (.*)$", text, re.MULTILINE))
