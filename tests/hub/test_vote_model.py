"""Votes equal the model that looks at all files one by one, whatever boxes report, in both databases."""

from __future__ import annotations

from functools import partial

import pytest

from integrity.hub.database import HubDatabase
from support.machines import run_long, run_short
from support.votemodel import Replicas


def test_votes_equal_model(hub_database: HubDatabase) -> None:
    """The same steps in each run; PostgreSQL has the same rules, and its own way to count with large numbers."""
    is_sqlite = hub_database.engine.dialect.name == "sqlite"
    run_short(partial(Replicas, hub_database, 3), examples=30 if is_sqlite else 4, steps=60)


def test_votes_of_many_boxes_equal_model(hub_database: HubDatabase) -> None:
    """However large a set is."""
    run_short(partial(Replicas, hub_database, 16), examples=1, steps=20)


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("count", [3, 16])
def test_votes_equal_model_at_length(hub_database: HubDatabase, count: int) -> None:
    """Steps that nobody has seen before."""
    run_long(partial(Replicas, hub_database, count), steps=60)
