"""Whatever jobs do to a catalog in whatever order: all that can be asked of it is answered as by a plain model (I2)."""

from __future__ import annotations

import pytest

from support.catalogmodel import CatalogMachine
from support.machines import run_long, run_short


def test_catalog_equals_model() -> None:
    """The same steps in each run."""
    run_short(CatalogMachine, examples=14, steps=80)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_catalog_equals_model_at_length() -> None:
    """Steps that nobody has seen before."""
    run_long(CatalogMachine, steps=80)
