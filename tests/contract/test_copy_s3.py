"""A copy in an S3 store, against real servers."""

from __future__ import annotations

import hashlib
import os
import random
import re
import resource
import tracemalloc
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from awscrt import checksums

from contract.copysuite import CopySuite, MakeCopy, list_entries
from integrity.copies.etags import PartsHasher, list_parts
from integrity.copies.names import find_fault
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, Entry, Kind, Published, Trouble
from integrity.copies.s3 import S3Copy
from integrity.errors import ConfigError, CopyUnreachable, Unreadable, Unstable, Vanished
from support.s3box import ACCESS, SECRET, SERVERS, S3Box, open_s3

MIB = 1 << 20
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the AWS chain find the servers' credentials and nothing of this machine's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Box]:
    """Run moto."""
    with open_s3("moto") as box:
        yield box


@pytest.fixture(scope="module")
def versitygw() -> Iterator[S3Box]:
    """Run versitygw."""
    with open_s3("versitygw") as box:
        yield box


@pytest.fixture(params=SERVERS)
def box(request: pytest.FixtureRequest) -> S3Box:
    """Give each server in turn."""
    found: S3Box = request.getfixturevalue(request.param)
    return found


def open_prefix(box: S3Box, bucket: str, prefix: str = "", **options: int) -> S3Copy:
    """Make the copy below a prefix."""
    return S3Copy(f"s3://{bucket}/{prefix}", endpoint=box.endpoint, **options)


class MotoCopy(S3Copy):
    """Know that moto's router finds no key with a line break in it."""

    def find_name_fault(self, path: bytes) -> str | None:
        return "has a line break in it" if b"\n" in path else super().find_name_fault(path)


def find_objects(folder: Path, uncarried: re.Pattern[str]) -> dict[str, bytes]:
    """Read all regular files that a store can carry, by their keys, as aws s3 sync does."""
    objects = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            key = f"the copy/{path.relative_to(folder)}"
            if path.is_file() and not path.is_symlink() and not (_NOT_UTF8.search(key) or uncarried.search(key)):
                objects[key] = path.read_bytes()
    return objects


class S3Suite(CopySuite):
    published = frozenset({Kind.MD5})
    kind: type[S3Copy] = S3Copy
    uncarried = re.compile(r"(?!)")

    @pytest.fixture
    def server(self) -> S3Box:
        raise NotImplementedError

    @pytest.fixture
    def make(self, server: S3Box) -> MakeCopy:
        def make(folder: Path) -> Copy:
            bucket = server.make_bucket()
            server.put(bucket, "another/file", b"no part of it")
            copy = self.kind(f"s3://{bucket}/the%20copy/", endpoint=server.endpoint)
            server.put_all(bucket, find_objects(folder, self.uncarried))
            return copy

        return make

    @pytest.fixture
    def gone(self, server: S3Box) -> Copy:
        return S3Copy("s3://never-made/x", endpoint=server.endpoint)


class TestMoto(S3Suite):
    kind = MotoCopy
    uncarried = re.compile(r"\n")

    @pytest.fixture
    def server(self, moto: S3Box) -> S3Box:
        return moto


class TestVersitygw(S3Suite):
    uncarried = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")

    @pytest.fixture
    def server(self, versitygw: S3Box) -> S3Box:
        return versitygw
