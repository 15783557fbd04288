"""Both databases of the hub, empty and with their tables."""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.hub.database import HubDatabase
from support.cli import Box
from support.hubserver import HubServerProcess, make_tables
from support.postgres import PostgresServer

_KINDS = ("sqlite", "postgresql")
TEMPLATE = "hub_template"
"""A database with the tables of the hub: copying it takes less than making them."""


@pytest.hookimpl(tryfirst=True)  # before marks choose
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the short run try each test with one of the databases, half of them with each."""
    for item in items:
        name, _, parameters = item.nodeid.partition("[")
        kinds = [kind for kind in _KINDS if kind in re.split(r"[\[\]-]", parameters)]
        if kinds and _KINDS[zlib.crc32(name.encode()) % len(_KINDS)] not in kinds:
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Run PostgreSQL, once in each worker."""
    with PostgresServer() as server:
        server.execute(f"CREATE DATABASE {TEMPLATE}")
        make_tables(server.url(TEMPLATE))
        yield server


@pytest.fixture(params=_KINDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return where a hub can make its tables, in each kind of database in turn."""
    if request.param == "sqlite":
        yield str(tmp_path / "hub.db")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the tables of a hub in a file that is only copied."""
    return Path(make_tables(str(tmp_path_factory.mktemp("hub") / "hub.db")))


@pytest.fixture(params=_KINDS)
def hub_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return a database with the tables of the hub and no rows, of each kind in turn."""
    if request.param == "sqlite":
        yield str(shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "hub.db"))
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


@pytest.fixture(scope="module", params=_KINDS)
def lasting_hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubServerProcess]:
    """Run a hub for all tests of a module whose boxes have names of their own, on each kind of database in turn."""
    place = tmp_path_factory.mktemp("hub")
    url = str(place / "hub.db")
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres").create_database(template=TEMPLATE)
    with HubServerProcess(Box(place / "home"), url) as server:
        yield server
