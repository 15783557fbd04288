"""Whoever consumes an engine's results is not left alone with a file that takes long."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from integrity.files.capability import find_capability
from integrity.files.open_beneath import open_root
from integrity.files.read import Reader
from integrity.files.span import Pace, ReadMode
from integrity.hashing.digests import want_to_verify
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Done, Task


class HeldPace(Pace):
    """Holds every reading back until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def take(self, size_bytes: int) -> None:
        assert self.let_go.wait(60)


def test_tick_comes_while_nothing_is_ready(tmp_path: Path):
    """The reading goes on only after the tick, so without one this would never end."""
    (tmp_path / "file").write_bytes(os.urandom(10_000))
    root = os.fsencode(tmp_path)
    root_fd = open_root(root)
    try:
        pace = HeldPace()
        reader = Reader(root_fd, find_capability(root_fd, root), mode=ReadMode.DISK, pace=pace)
        task = Task(b"file", 10_000, want_to_verify(is_one_block=True, deep=False, blake3=False), 1 << 20)

        results = list(Engine(reader, jobs=1).run([task], tick=pace.let_go.set))
    finally:
        os.close(root_fd)

    assert [Done] == [type(result) for result in results]
