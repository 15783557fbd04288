"""A catalog is read by another user of its group, who may write nothing there: the page's user, say."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.own_files import share_with_group
from integrity.catalog.roots import add_root, find_roots
from support.catalogs import IDENTITY, NOW
from support.privileges import let_in

pytestmark = pytest.mark.root
GROUP, READER = 54_321, 54_322

_READ = f"""
import os, sys
os.setgroups([])
os.setgid({GROUP})
os.setuid({READER})
from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots
from integrity.errors import AppError
try:
    with Catalog.open(sys.argv[1], writes=False) as catalog, catalog.read() as connection:
        print(*(os.fsdecode(one.path) for one in find_roots(connection)))
except AppError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Make a folder that a group may enter, with the way to it open to all, and nobody's files in it yet."""
    let_in(tmp_path)
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, -1, GROUP)
    folder.chmod(0o750)
    return folder / "catalog.db"


def record(catalog: Catalog, path: bytes) -> None:
    with catalog.transaction() as connection:
        add_root(connection, path, IDENTITY, NOW)


def read(place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _READ, place], capture_output=True, text=True, check=False)


def test_reader_sees_what_is_committed(place: Path) -> None:
    """While it is written, and when nobody has it open; nothing is left behind."""
    with Catalog.create(str(place)) as catalog:
        record(catalog, b"/srv/one")
        assert "/srv/one\n" == read(place).stdout
        with catalog.transaction():
            assert "/srv/one\n" == read(place).stdout
        record(catalog, b"/srv/two")
        assert "/srv/one /srv/two\n" == read(place).stdout
    assert {place.name, f"{place.name}.lock"} >= {path.name for path in place.parent.iterdir()}
    assert "/srv/one /srv/two\n" == read(place).stdout
    assert {place.name, f"{place.name}.lock"} >= {path.name for path in place.parent.iterdir()}


def test_log_that_a_killed_program_left_is_said_to_need_its_owner(place: Path) -> None:
    """The reader may not apply it; the owner's next command does, and then all is there."""
    with Catalog.create(str(place)) as catalog:
        record(catalog, b"/srv/one")
    program = """
import os, sys
from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots, set_root_state
from integrity.model import RootState
catalog = Catalog.open(sys.argv[1], writes=True)
with catalog.transaction() as connection:
    set_root_state(connection, find_roots(connection)[0].id, RootState.PAUSED, "by hand")
os._exit(9)
"""
    assert 9 == subprocess.run([sys.executable, "-c", program, place], check=False).returncode
    assert place.with_name(place.name + "-wal").exists()
    done = read(place)
    assert "/srv/one\n" == done.stdout or "run this as the catalog's owner" in done.stderr
    with Catalog.open(str(place), writes=True) as catalog, catalog.read() as connection:
        assert "by hand" == find_roots(connection)[0].state_reason
    assert "/srv/one\n" == read(place).stdout


def test_catalog_of_before_is_shared(place: Path) -> None:
    """One that was made for its owner only can be read once the service has started on it."""
    with Catalog.create(str(place)) as catalog:
        record(catalog, b"/srv/one")
    place.chmod(0o600)
    assert "" == read(place).stdout
    share_with_group(os.fsencode(place))
    assert "/srv/one\n" == read(place).stdout


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o770, 0o711])
def test_other_folders_keep_their_catalogs_closed(tmp_path: Path, mode: int) -> None:
    """Only a folder that is closed to others, and open to a group for reading, is meant to be read."""
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    Catalog.create(str(folder / "catalog.db")).close()
    share_with_group(os.fsencode(folder / "catalog.db"))

    assert 0o600 == stat.S_IMODE((folder / "catalog.db").stat().st_mode)
