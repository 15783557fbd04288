"""Both databases of the hub, empty and with their tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.hub.database import HubDatabase
from support.cli import Box
from support.hubserver import HubServerProcess, make_tables
from support.postgres import PostgresServer

TEMPLATE = "hub_template"
"""A database with the tables of the hub: copying it takes less than making them."""


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run PostgreSQL, once in each worker."""
    with PostgresServer() as server:
        server.execute(f"CREATE DATABASE {TEMPLATE}")
        make_tables(server.url(TEMPLATE))
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return where a hub can make its tables, in each kind of database in turn."""
    if request.param == "sqlite":
        yield str(tmp_path / "hub.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def hub_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return a database with the tables of the hub and no rows, of each kind in turn."""
    if request.param == "sqlite":
        yield make_tables(str(tmp_path / "hub.db"))
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database(template=TEMPLATE)
    yield url
    server.drop_database(url)


@pytest.fixture
def shards_url(postgres: PostgresServer) -> Iterator[str]:
    """Return a database with the tables of a hub: shared trees need PostgreSQL."""
    url = postgres.create_database(template=TEMPLATE)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def hub_database(hub_url: str) -> Iterator[HubDatabase]:
    """Open it."""
    database = HubDatabase.open(hub_url)
    yield database
    database.close()


@pytest.fixture
def hub(integrity: Box, hub_url: str) -> Iterator[HubServerProcess]:
    """Run a hub, on each kind of database in turn."""
    with HubServerProcess(integrity, hub_url) as server:
        yield server
