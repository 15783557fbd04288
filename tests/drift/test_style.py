"""The tools that hold the code to its conventions have nothing to say."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent


def check(*command: str | Path) -> None:
    """Run one tool over the project and show what it says if it is not content."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing() -> None:
    """The code follows the rules that pyproject.toml lists."""
    check(sys.executable, "-m", "ruff", "check", "--output-format", "concise")


def test_code_is_formatted() -> None:
    """The code looks as ruff writes it."""
    check(sys.executable, "-m", "ruff", "format", "--check")


@pytest.mark.first  # a minute of one core
@pytest.mark.timeout(900)  # which may have much else to do
def test_types_are_right() -> None:
    """The package and the tests' support are clean under mypy --strict."""
    check(sys.executable, "-m", "mypy")


def test_imports_point_downward() -> None:
    """No module imports from a layer above its own, and third-party names stay behind their walls."""
    check(PROGRAMS / "lint-imports", "--no-cache")


def test_each_class_name_stands_once() -> None:
    """One name, one meaning; names with an underscore belong to their module."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "daemon").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path.name)

    assert {} == {name: places for name, places in found.items() if len(places) > 1}
