"""A hub is tried with one command, on folders as they are."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.servers import free_port
from support.waiting import wait_until


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return a folder of photos, and a copy that lacks one."""
    ours, theirs = tmp_path / "photos", tmp_path / "back up's"
    for folder, names in ((ours, "abc"), (theirs, "ab")):
        (folder / "2019").mkdir(parents=True)
        for name in names:
            (folder / "2019" / name).write_text(name * 5000)
    return ours, theirs


@contextmanager
def run_trial(*args: str | Path, temp: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the command; kill it if the test does not end it."""
    command = [sys.executable, "-m", "integrity", "hub", "try", "--listen", f"127.0.0.1:{free_port()}", *args]
    environment = {**os.environ, "TMPDIR": str(temp)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)


def look_at(folder: Path) -> list[tuple[Path, bytes, int]]:
    """Return path, content and mtime of each file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files]


def read_findings(temp: Path) -> list[tuple[str, bytes]]:
    """Return kind and path of each finding of the hub that runs in ``temp``."""
    try:
        with closing(sqlite3.connect(next(temp.glob("integrity-hub-*/hub.db")))) as db:
            return db.execute("SELECT kind, path FROM finding").fetchall()
    except (StopIteration, sqlite3.OperationalError):
        return []  # it begins


def test_trial_finds_what_the_copy_lacks(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """The folders stay as they are, and nothing is left of the trial."""
    before = [look_at(folder) for folder in folders]
    temp = tmp_path / "temp"
    temp.mkdir()

    with run_trial(*folders, temp=temp) as trial:
        wait_until(lambda: [("replica_missing", b"2019/c")] == read_findings(temp), "a vote")
        trial.send_signal(signal.SIGINT)
        said, _ = trial.communicate(timeout=60)

    assert 0 == trial.returncode, said
    assert "box2 watches" in said
    assert "The hub is at http://127.0.0.1:" in said
    assert [] == list(temp.iterdir())
    assert before == [look_at(folder) for folder in folders]


def test_trial_ends_with_its_hub(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """A port that is taken ends it with the message of the hub, and leaves nothing."""
    temp = tmp_path / "temp"
    temp.mkdir()
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "integrity", "hub", "try", "--listen", f"127.0.0.1:{port}", folders[0]]
        done = subprocess.run(
            command, env={**os.environ, "TMPDIR": str(temp)}, capture_output=True, text=True, timeout=120, check=False
        )

    assert 0 != done.returncode
    assert f"can't listen on 127.0.0.1 port {port}" in done.stderr
    assert "the hub ended with exit code 2" in done.stderr
    assert [] == list(temp.iterdir())


@pytest.mark.parametrize("second", [".", "no such folder"])
def test_trial_refuses_what_are_no_two_folders(folders: tuple[Path, Path], tmp_path: Path, second: str) -> None:
    """Nothing is started."""
    with run_trial(folders[0], folders[0] / second, temp=tmp_path) as trial:
        said, _ = trial.communicate(timeout=60)

    assert 2 == trial.returncode
    assert ("given twice" if second == "." else "not a folder") in said
