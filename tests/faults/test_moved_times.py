"""A moved time explains other content only if it moved by itself, also for the scan after one that was stopped."""

from __future__ import annotations

import os
from pathlib import Path

from integrity.jobs import runner
from integrity.jobs.options import ScanOptions
from integrity.model import Outcome
from support.cli import Box
from support.repairs import context_of
from support.results import met
from support.shapes import damage, put


def test_scan_that_is_stopped(root: Path, integrity: Box) -> None:
    """A stopped scan leaves the recorded times of what it read: by them the next one knows that all of them moved."""
    paths = [root / f"{number}.jpg" for number in range(6)]
    for number, path in enumerate(paths):
        put(path, os.urandom(5_000))
        os.utime(path, (1_577_872_800 + number * 86_413,) * 2)
    integrity.run("scrub", root, expect=0)
    damage(paths[3], 1_000)
    for path in paths:
        path.touch()
    with context_of(integrity) as context:

        def stop(_: float) -> bool:
            context.stop.set()
            return True

        context.wait = stop  # when files that were written a moment ago are to be read again
        summary = runner.scan(context, (os.fsencode(root),), ScanOptions())
    assert Outcome.INTERRUPTED == summary.outcome

    done = integrity.run("--json", "scan", root, expect=1)

    assert [("silent_rewrite", str(paths[3]))] == met(done)
    assert "times_moved_together" == done.findings[0]["certainty"]
