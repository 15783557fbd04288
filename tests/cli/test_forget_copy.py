"""``forget --copy`` of a copy that is in use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.cli import Box
from support.running import Running
from support.stored import query
from support.waiting import wait_until

pytestmark = pytest.mark.files(6, size_bytes=3000)


def count_copies(box: Box) -> int:
    """Count the copies that the catalog knows."""
    ((count,),) = query(box, "SELECT count(*) FROM copy")
    return int(str(count))


def test_copy_that_is_being_compared_stays(integrity: Box, root: Path, copy: Path) -> None:
    """The comparison would write down what a copy said that is not known any more: exit 4, and who it is."""
    integrity.run("scan", root, expect=0)
    with Running(integrity, "compare", root, "--with", copy, "--rate", "1K") as running:
        wait_until(lambda: count_copies(integrity) == 1, "a comparison")
        refused = integrity.run("forget", "--copy", copy, "--yes", expect=4)
        running.signal(signal.SIGTERM)
        running.finish()

    assert "compare" in refused.stderr
    assert 1 == count_copies(integrity)
