"""Before a file is read again the program waits, by default for seconds; only tests shorten that."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from integrity.model import Job
from integrity.pauses import Pauses, read_pauses
from support.bitrot import rot
from support.cli import REAL_PAUSES, Box
from support.jobs import open_context
from support.loopfs import LoopFS
from support.results import kinds
from support.shapes import put

REAL = Pauses(confirm_s=2.0, retry_s=3.0)


@pytest.mark.parametrize("setting", [None, "", "1"])
def test_pauses_that_nobody_shortens_are_seconds(monkeypatch: pytest.MonkeyPatch, setting: str | None) -> None:
    """Without the variable, or with one that is empty, the pauses are the real ones."""
    monkeypatch.delenv("INTEGRITY_PAUSES")
    if setting is not None:
        monkeypatch.setenv("INTEGRITY_PAUSES", setting)

    assert REAL == read_pauses()


def test_factor_shortens_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pauses are multiplied by it."""
    monkeypatch.setenv("INTEGRITY_PAUSES", "0.5")

    assert Pauses(confirm_s=1.0, retry_s=1.5) == read_pauses()


@pytest.mark.root
def test_reads_that_confirm_rot_are_two_seconds_apart(ext4: LoopFS, integrity: Box) -> None:
    """The program as users start it waits before each of the two reads."""
    put(ext4.folder / "photo", os.urandom(20_000))
    integrity.run("scan", ext4.folder, expect=0)
    rot(ext4.folder / "photo", 9_000)

    began = time.monotonic()
    done = integrity.run("--json", "scrub", ext4.folder, env=REAL_PAUSES, expect=1)

    assert ["rot"] == kinds(done)
    assert time.monotonic() - began >= 2 * REAL.confirm_s


@pytest.mark.parametrize("job", [Job.SCAN, Job.SCRUB])
def test_file_that_is_not_at_rest_is_tried_again_after_seconds(root: Path, tmp_path: Path, job: Job) -> None:
    """Before each further try of a file that is not at rest lies the real pause: less than ten seconds in all."""
    waited = list[float]()
    put(root / "held", b"content")
    old = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel asks the holder to give the lease back
    try:
        with open_context(tmp_path / "catalog.db") as context, open(root / "held", "r+b") as holder:
            context.pauses, context.wait = REAL, lambda duration_s: bool(waited.append(duration_s))
            if job is Job.SCRUB:
                scan(context, [os.fsencode(root)], ScanOptions())
                waited.clear()
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            if job is Job.SCAN:
                scan(context, [os.fsencode(root)], ScanOptions())
            else:
                scrub(context, [os.fsencode(root)], ScrubOptions())
    finally:
        signal.signal(signal.SIGIO, old)

    assert [REAL.retry_s] * (2 if job is Job.SCAN else 3) == waited
