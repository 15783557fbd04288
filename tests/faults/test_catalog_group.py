"""A catalog that a group may read and not write, as the page's user reads the service's: while it runs, and after."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from support import AnyPath
from support.cli import Box, Completed, complete, make_command
from support.flips import flip_bit
from support.planted import plant, plant_path
from support.privileges import NOBODY
from support.service import Service

pytestmark = pytest.mark.root

GROUP = 64_242
FRAME_HEADER_BYTES = 24
FRAME_BYTES = FRAME_HEADER_BYTES + 4096
AS_MEMBER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={GROUP}")

# Opens the catalog, says so, and reads when it is told to: once within one open, and once more with a new one.
READ = """
import sys
from integrity.catalog.connection import Catalog
from integrity.catalog import roots
from integrity.errors import CatalogError

def read(catalog):
    try:
        with catalog.read() as c:
            found = str(len(roots.find_roots(c)))
    except CatalogError as error:
        found = f"{type(error).__name__} {error}"
    print(found, flush=True)

with Catalog.open(sys.argv[1], writes=False) as catalog:
    read(catalog)
    sys.stdin.readline()
    read(catalog)
with Catalog.open(sys.argv[1], writes=False) as catalog:
    read(catalog)
"""

# Opens and reads again and again until its input ends; prints what failed, and how often it did not.
READ_OFTEN = """
import select, sys
from collections import Counter
from integrity.catalog.connection import Catalog
from integrity.catalog import roots
from integrity.errors import CatalogError, CatalogLocked

seen = Counter()
print("began", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        with Catalog.open(sys.argv[1], writes=False) as catalog, catalog.read() as c:
            seen[f"{len(roots.find_roots(c))} roots"] += 1
    except CatalogLocked:
        seen["locked"] += 1
    except CatalogError as error:
        seen[str(error)] += 1
print(dict(seen))
"""


@pytest.fixture
def box() -> Iterator[Box]:
    """Give a home that a group may read, as StateDirectoryMode=0750 makes it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        box = Box(Path(folder) / "box")
        box.home.mkdir()
        os.chown(box.home, 0, GROUP)
        box.home.chmod(0o750)
        yield box


@pytest.fixture
def root(box: Box) -> Path:
    """Record three files; a fourth one is new."""
    root = plant(box.home.parent / "root", 3)
    box.configure(f'[[root]]\npath = "{root}"\n')
    box.run("scan", root, expect=0)
    plant(root, 4)
    return root


def run_as_member(box: Box, *args: AnyPath) -> Completed:
    """Run the program as somebody in the group."""
    done = subprocess.run(
        [*AS_MEMBER, *make_command(*args)],
        env=box.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)


def start_as_member(box: Box, script: str) -> subprocess.Popen[str]:
    """Start a script as somebody in the group; it gets the catalog's path."""
    return subprocess.Popen(
        [*AS_MEMBER, sys.executable, "-P", "-c", script, box.catalog],
        env=box.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def is_shown(box: Box, path: Path) -> bool:
    """Return whether a member of the group is shown the record of a file."""
    done = run_as_member(box, "explain", path)
    assert done.code in (0, 2), done.stdout + done.stderr
    return done.code == 0


def list_files(box: Box) -> dict[str, tuple[int, int, int]]:
    """Return inode, mode and time of change of the catalog's files."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mode & 0o777, path.stat().st_ctime_ns)
        for path in box.home.glob("catalog.db*")
    }


def put(box: Box, value: str) -> None:
    """Write to the catalog, as any command does."""
    with Catalog.open(bytes(box.catalog), writes=True) as catalog, catalog.transaction() as c:
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('test', ?)", value)


def test_catalog_that_nobody_has_open(box: Box, root: Path) -> None:
    """It is read without its log, and nothing is made or changed beside it."""
    before = list_files(box)

    assert is_shown(box, plant_path(root, 0))
    assert 0 == run_as_member(box, "status").code
    assert before == list_files(box)
    assert 0o640 == before["catalog.db"][1]
    assert {"catalog.db", "catalog.db.lock"} <= set(before)


@pytest.mark.long
def test_catalog_of_a_killed_service(box: Box, root: Path) -> None:
    """What stands only in the log is read; without the index of the log it is said who can read it."""
    with Service(box) as service:
        service.wait_begun()
        service.kill()
    log, index = (box.catalog.with_name(f"catalog.db-{name}") for name in ("wal", "shm"))
    before = list_files(box)
    assert log.stat().st_size > 0
    assert is_shown(box, plant_path(root, 3))
    assert before == list_files(box)

    index.unlink()
    refused = run_as_member(box, "explain", plant_path(root, 3))
    assert 4 == refused.code
    assert "was not closed properly" in refused.stderr
    assert "systemctl start integrity" in refused.stderr

    with Service(box) as service:
        service.wait_begun()
        assert is_shown(box, plant_path(root, 3))


def test_index_that_the_group_may_not_read(box: Box, root: Path) -> None:
    """The message names permissions, and no crash that there was not."""
    with Service(box) as service:
        service.wait_begun()
        box.catalog.with_name("catalog.db-shm").chmod(0o600)
        refused = run_as_member(box, "explain", plant_path(root, 0))

    assert 4 == refused.code
    assert "check the permissions" in refused.stderr


def test_stranger_is_refused(box: Box, root: Path) -> None:
    """Who is not in the group sees nothing."""
    done = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *make_command("explain", root)],
        env={**box.environment, "INTEGRITY_CONFIG": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 4 == done.returncode, done.stderr
    assert "Permission denied" in done.stderr


def test_member_can_not_write(box: Box, root: Path) -> None:
    """A command that writes is refused before it does anything."""
    before = list_files(box)
    refused = run_as_member(box, "forget", plant_path(root, 0))

    assert 4 == refused.code
    assert "Permission denied" in refused.stderr
    assert before == list_files(box)


def test_writer_that_starts_while_the_catalog_is_read(box: Box, root: Path) -> None:
    """What was read without locks is refused from then on, and the next open reads what was written."""
    with start_as_member(box, READ) as reader:
        assert "1" == read_line(reader)
        put(box, "x")
        assert reader.stdin is not None
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert "CatalogLocked" in (refused := read_line(reader))
        assert refused.endswith("another program began to write to the catalog while it was read; try again")
        assert "1" == read_line(reader)


def test_commit_that_is_being_written(box: Box, root: Path) -> None:
    """The start of a frame is neither damage nor a commit: a writer may have been interrupted there."""
    log = box.catalog.with_name("catalog.db-wal")
    with Catalog.open(bytes(box.catalog), writes=True) as catalog:
        with catalog.transaction() as c:
            c.run("INSERT INTO meta (key, value) VALUES ('test', 'x')")
        size, frames = log.stat().st_size, log.read_bytes()
        with log.open("ab") as file:
            file.write(frames[-FRAME_BYTES:][:FRAME_HEADER_BYTES].ljust(FRAME_BYTES, b"\x01"))
        refused = run_as_member(box, "explain", plant_path(root, 0))
        os.truncate(log, size)
        assert is_shown(box, plant_path(root, 0))

    assert 4 == refused.code
    assert "was not closed properly" in refused.stderr


def test_index_in_the_midst_of_a_change(box: Box, root: Path) -> None:
    """It is read again; if it stays so, another program is writing."""
    index = box.catalog.with_name("catalog.db-shm")
    with Service(box) as service:
        service.wait_begun()
        flip_bit(index, random.Random(0), 0, 1)
        refused = run_as_member(box, "explain", plant_path(root, 0))
        flip_bit(index, random.Random(0), 0, 1)
        assert is_shown(box, plant_path(root, 0))

    assert 4 == refused.code
    assert "another program is writing to the catalog; try again" in refused.stderr


def test_writers_that_come_and_go(box: Box, root: Path) -> None:
    """A reader never takes a log that is being made or removed for a crash, nor mixed pages for damage."""
    with start_as_member(box, READ_OFTEN) as reader:
        assert "began" == read_line(reader)
        for number in range(150):
            put(box, str(number))
        out, _ = reader.communicate("\n")
    seen: dict[str, int] = eval(out)

    assert seen.pop("1 roots") > 0
    assert {} == {message: count for message, count in seen.items() if message != "locked"}


def test_restored_catalog(box: Box, root: Path) -> None:
    """It can be read as the one before; the locks stay closed, for whoever holds one stops all jobs."""
    box.run("catalog", "backup", expect=0)
    box.catalog.unlink()
    box.run("catalog", "restore", "--yes", expect=0)

    assert is_shown(box, plant_path(root, 0))
    assert {0o600} == {mode for name, (_, mode, _) in list_files(box).items() if name.endswith(".lock")}


def test_restore_that_was_interrupted(box: Box, root: Path) -> None:
    """A reader can't finish it, and is told who does."""
    box.run("catalog", "backup", expect=0)
    backup = max(box.home.glob("catalog-*.db"))
    backup.chmod(0o640)
    backup.rename(box.home / "catalog.db.restoring")
    refused = run_as_member(box, "explain", plant_path(root, 0))
    assert 4 == refused.code
    assert "is being restored" in refused.stderr

    box.catalog.unlink()  # as if it was killed after the former catalog was moved away
    with Service(box) as service:
        service.wait_begun()
    assert is_shown(box, plant_path(root, 0))
