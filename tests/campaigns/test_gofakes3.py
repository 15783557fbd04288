"""Comparisons with gofakes3, the server behind ``rclone serve s3``: whatever it states, damage is told and repaired."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.planted import age
from support.results import kinds_by_name, tallies
from support.s3box import CLIENT_ENV, S3Box

pytestmark = pytest.mark.long

MIB = 1 << 20
PART_BYTES = 5 * MIB
STATES = ("good", "flipped", "cut", "grown", "older", "missing")


class Store:
    """A root with files in every state, and its copy in a bucket; half of the files are uploaded in parts."""

    def __init__(self, integrity: Box, server: S3Box, root: Path, seed: int) -> None:
        self._integrity, self._server, self.root = integrity, server, root
        self._bucket = server.make_bucket()
        self._chance = random.Random(seed)
        root.mkdir()
        self.names = {f"{state}-{number}": state for state in STATES for number in range(6)}

    def fill(self) -> None:
        """Make the files, record them, and upload each in its state."""
        old = {name: self._make(number) for number, name in enumerate(self.names)}
        for name, data in old.items():
            (self.root / name).write_bytes(data)
        age(*self.root.iterdir())
        self._integrity.run("scan", self.root, expect=0)
        for name, state in self.names.items():
            if state == "older":
                (self.root / name).write_bytes(self._make(1))
            if state != "missing":
                self._put(f"backup/{name}", self._spoil(old[name], state))

    def _make(self, number: int) -> bytes:
        size = self._chance.randrange(1, 3000) if number % 2 else PART_BYTES + self._chance.randrange(1, 3 * MIB)
        return self._chance.randbytes(size)

    def _spoil(self, data: bytes, state: str) -> bytes:
        offset = self._chance.randrange(len(data))
        return {
            "flipped": data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :],
            "cut": data[:-1],
            "grown": data + b"x",
        }.get(state, data)

    def _put(self, key: str, data: bytes) -> None:
        if len(data) > PART_BYTES:
            self._server.put_parts(self._bucket, key, [data[:PART_BYTES], data[PART_BYTES:]])
        else:
            self._server.put(self._bucket, key, data)

    def run(self, *words: object, expect: int) -> Completed:
        """Run a command with the copy, and insist on its exit code."""
        url = f"s3://{self._bucket}/backup?endpoint={self._server.endpoint}"
        command = ["--json", *(url if word == "COPY" else str(word) for word in words)]
        return self._integrity.run(*command, expect=expect, env=dict(CLIENT_ENV))


@pytest.fixture
def store(integrity: Box, gofakes3: S3Box, tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """Fill a store by the seed of the test."""
    store = Store(integrity, gofakes3, tmp_path / "root", request.param)
    store.fill()
    return store


@pytest.mark.parametrize("store", range(5), indirect=True)
@pytest.mark.parametrize("options", [(), ("--read",)], ids=" ".join)
def test_every_state_is_told(store: Store, options: tuple[str, ...]) -> None:
    """By ETags and by bytes: what is good is good, what is not is told, and nothing else."""
    done = store.run("compare", store.root, "--with", "COPY", *options, expect=1)
    kinds = {"missing": "copy_missing", "older": "copy_stale"}
    expected = {name: kinds.get(state, "copy_differs") for name, state in store.names.items() if state != "good"}

    assert expected == {name: kind for name, kind in kinds_by_name(done).items() if name in store.names}
    assert 6 == tallies(done)["verified"]


@pytest.mark.parametrize("store", range(3), indirect=True)
def test_damage_here_is_repaired_from_it(store: Store) -> None:
    """A file that was rewritten here is told by the comparison, and put back from the store."""
    names = [name for name, state in store.names.items() if state == "good"]
    content = {name: (store.root / name).read_bytes() for name in names}
    for name in names:
        times = (store.root / name).stat()
        (store.root / name).write_bytes(content[name][:-1] + bytes([content[name][-1] ^ 1]))
        os.utime(store.root / name, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = store.run("compare", store.root, "--with", "COPY", expect=1)
    about = {name: {one["kind"] for one in done.findings if one["path"] == str(store.root / name)} for name in names}
    assert {name: {"silent_rewrite"} for name in names} == about
    store.run("repair", *(store.root / name for name in names), "--from", "COPY", "--apply", expect=0)

    assert content == {name: (store.root / name).read_bytes() for name in names}
