"""A root that the configuration named and names no more is paused; it is never forgotten."""

from __future__ import annotations

import os
from pathlib import Path

from integrity.catalog.roots import find_roots
from integrity.jobs.admin.roots import TAKEN_OUT, follow_config, set_paused
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan
from integrity.model import RootState
from support.jobs import open_context
from support.planted import plant


def states(context: Context) -> list[tuple[RootState, str | None]]:
    """Tell how the roots are, in the order of their paths."""
    with context.catalog.read() as connection:
        return [(root.state, root.state_reason) for root in find_roots(connection)]


def test_roots_follow_the_configuration(tmp_path: Path) -> None:
    """Out of it: paused. Back in it: resumed. Made by a command, or paused by hand: left alone."""
    paths = [os.fsencode(plant(tmp_path / name, 2)) for name in ("configured", "made", "stopped")]
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, paths, ScanOptions())
        set_paused(context.catalog, paths[2], is_paused=True, now=context.now())
        active, by_hand = (RootState.ACTIVE, None), (RootState.PAUSED, "paused by hand")
        follow_config(context.catalog, {paths[0], paths[2]})
        assert [active, active, by_hand] == states(context)
        follow_config(context.catalog, set())
        assert [(RootState.PAUSED, TAKEN_OUT), active, by_hand] == states(context)
        follow_config(context.catalog, {paths[0]})
        assert [active, active, by_hand] == states(context)
