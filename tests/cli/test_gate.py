"""``gate`` as a hook and its author see it: exit codes, silence, objects, what closes it and what opens it again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.jobs.lock import lock_root
from integrity.model import FindingKind, Job
from support.cli import Box
from support.planted import plant
from support.privileges import let_in, run_as_nobody
from support.running import Running
from support.shapes import put


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with 30 files."""
    return plant(tmp_path / "data", 30)


def open_by_hand(integrity: Box, kind: FindingKind, path: bytes | None = None, copy: str | None = None) -> None:
    """Open a finding in the one root, as a job would."""
    with Catalog.open(str(integrity.catalog), writes=True) as catalog, catalog.transaction() as c:
        [root] = roots.find_roots(c)
        new = NewFinding(kind, root.id, None, path, "a test says so", copy=copy)
        findings.open_finding(c, new, now=int(time.time()), run_id=None)


@contextmanager
def scrubbing(integrity: Box) -> Iterator[None]:
    """Hold the one root as a scrub does."""
    with Catalog.open(str(integrity.catalog), writes=False) as catalog, catalog.read() as c:
        [root] = roots.find_roots(c)
    with lock_root(bytes(integrity.catalog), root.id, root.path, Job.SCRUB, now=0):
        yield


def test_findings_elsewhere_do_not_close_it(integrity: Box, data: Path) -> None:
    """Those of another folder of the root, and those about copies."""
    integrity.run("gate", data, expect=0)
    open_by_hand(integrity, FindingKind.ROT, b"d1/1.txt")
    open_by_hand(integrity, FindingKind.COPY_STALE, b"d2/2.txt", "nightly")
    open_by_hand(integrity, FindingKind.COPY_UNREADABLE, None, "nightly")
    open_by_hand(integrity, FindingKind.OVERDUE)

    integrity.run("gate", data, expect=1)
    integrity.run("gate", data / "d1", expect=1)
    integrity.run("gate", data / "d1" / "1.txt", expect=1)
    for place in (data / "d2", data / "d1" / "8.txt"):
        integrity.run("gate", place, expect=0)


@pytest.mark.parametrize("kind", [FindingKind.DEVICE_FAILING, FindingKind.DEVICE_STALLED])
def test_gaps_are_another_exit_code(integrity: Box, data: Path, kind: FindingKind) -> None:
    """What could not be looked at is no damage that is known."""
    integrity.run("gate", data, expect=0)
    open_by_hand(integrity, kind)

    for place in (data, data / "d3"):
        assert "gate: not open: do not back up" in integrity.run("gate", place, expect=3).stdout


def test_unreadable_file_is_a_gap(integrity: Box, data: Path) -> None:
    """The backup would be without it."""
    let_in(data.parent)
    os.makedirs(integrity.environment["HOME"], exist_ok=True)
    integrity.home.chmod(0o777)
    assert 0 == run_as_nobody(integrity, "gate", data).code
    put(data / "d1" / "secret")
    (data / "d1" / "secret").chmod(0)

    done = run_as_nobody(integrity, "gate", data)

    assert (3, True) == (done.code, "1 finding open (1 file or folder unreadable)" in done.stdout)
    assert 0 == run_as_nobody(integrity, "gate", data / "d2").code


def test_names_are_any_bytes(integrity: Box, tmp_path: Path) -> None:
    """Also those that are no text, in a file's place as in a folder's."""
    folder = os.fsencode(tmp_path) + b"/d\xff"
    os.mkdir(folder)
    for number in range(30):
        with open(folder + b"/\xfe\n%d.txt" % number, "wb") as file:
            file.write(b"a line of text\n" * 20)
    integrity.run("gate", folder, expect=0)
    for name in os.listdir(folder):
        with open(folder + b"/" + name, "wb") as file:
            file.write(os.urandom(5000))

    verdict = integrity.run("--json", "gate", folder, expect=1).of_type("gate")[0]

    assert verdict["looks_like_ransomware"]
    assert "\\xff" in integrity.run("gate", folder, expect=1).stdout


def test_gate_waits_for_another_job(integrity: Box, data: Path) -> None:
    """A scrub that cron began at the same time is no reason to fail."""
    integrity.run("gate", data, expect=0)
    with ExitStack() as stack:
        with scrubbing(integrity):
            running = stack.enter_context(Running(integrity, "gate", data))
            line = running.read_error()
            assert not running.has_ended
        done = running.finish()

    assert "a scrub of it is running" in line
    assert "the gate waits for it, 10 min at most" in line
    assert (0, "gate: open") == (done.code, done.stdout[:10])


def test_gate_that_is_stopped_while_it_waits_was_interrupted(integrity: Box, data: Path) -> None:
    """That somebody else was at work is not why it ends."""
    integrity.run("gate", data, expect=0)
    with scrubbing(integrity), Running(integrity, "gate", data) as running:
        running.read_error()
        running.signal(signal.SIGTERM)
        done = running.finish()

    assert (130, "gate: interrupted") == (done.code, done.stdout[:17])


def test_gate_that_waited_too_long_says_for_whom(integrity: Box, data: Path) -> None:
    """Exit 4, as for every job that meets another one."""
    integrity.run("gate", data, expect=0)
    with scrubbing(integrity):
        done = integrity.run("-q", "gate", data, "--wait", "1s", expect=4)

    assert f"a scrub of it is running (process {os.getpid()})" in done.stderr
    integrity.run("gate", data, expect=0)
