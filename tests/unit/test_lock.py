"""The lock of a root: one job at a time, who holds it, and what does not count as holding it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from integrity.catalog.own_files import root_lock_path
from integrity.errors import CatalogError, CatalogLocked
from integrity.jobs.lock import find_holder, lock_root
from integrity.model import Job, RootId

ROOT = RootId(7)


@pytest.fixture
def catalog(tmp_path: Path) -> bytes:
    """Make a file in a catalog's place."""
    path = tmp_path / "catalog.db"
    path.touch()
    return bytes(path)


def test_holder_is_known_while_it_holds(catalog: bytes) -> None:
    """Who works on the root is told to whoever asks, and nobody once it has ended."""
    assert find_holder(catalog, ROOT) is None
    with lock_root(catalog, ROOT, b"/srv", Job.SCRUB, now=5):
        holder = find_holder(catalog, ROOT)
        assert holder is not None
        assert ("scrub", 5) == (holder.job, holder.since)
        assert find_holder(catalog, RootId(8)) is None
    assert find_holder(catalog, ROOT) is None


def test_service_that_holds_a_root_is_not_to_be_stopped(catalog: bytes) -> None:
    """The message says what it does, and where its end can be seen."""
    with (
        lock_root(catalog, ROOT, b"/srv", Job.SCRUB, now=5, socket="/run/x"),
        pytest.raises(
            CatalogLocked, match=r"the service \(process \d+\) works on it, at a scrub; try again when"
        ) as error,
        lock_root(catalog, ROOT, b"/srv", Job.SCAN, now=6, wait=lambda _: None),
    ):
        pass
    assert "stop" not in str(error.value)


def test_asking_for_the_holder_keeps_no_job_away(catalog: bytes) -> None:
    """A status that asks at the very moment when a job begins does not make it fail."""
    with lock_root(catalog, ROOT, b"/srv", Job.SCAN, now=5):
        pass
    fd = os.open(root_lock_path(catalog, ROOT), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    with lock_root(catalog, ROOT, b"/srv", Job.SCAN, now=6, wait=lambda _: fcntl.flock(fd, fcntl.LOCK_UN)):
        holder = find_holder(catalog, ROOT)
        assert holder is not None
        assert 6 == holder.since
    os.close(fd)


def test_lock_that_cannot_be_written_is_said(catalog: bytes) -> None:
    """What is in the way of the lock file is named."""
    Path(root_lock_path(catalog, ROOT).decode()).mkdir()
    with (
        pytest.raises(CatalogError, match=r"root-7\.lock: the lock of the root can't be written: Is a directory"),
        lock_root(catalog, ROOT, b"/srv", Job.SCAN, now=5),
    ):
        pass
