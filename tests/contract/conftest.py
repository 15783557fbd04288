"""Fixtures of the contract tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalogs import CatalogBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[CatalogBox]:
    """Give a catalog with one root."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as made:
        yield made
