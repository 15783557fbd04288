"""``compare --blocks`` with copies on other machines, by real servers: the bytes are fetched and shown."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from support import AnyPath
from support.cli import Box
from support.machine import need_programs
from support.s3box import CLIENT_ENV, S3Box
from support.shapes import damage
from support.sshbox import SFTP_ONLY, SshBox

NAME = "film.mkv"


@pytest.fixture
def root(tmp_path: Path, integrity: Box) -> Path:
    """A recorded folder with a file."""
    root = tmp_path / "root"
    root.mkdir()
    (root / NAME).write_bytes(random.Random(1).randbytes(3 << 20))
    integrity.run("scan", root, expect=0)
    return root


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy with one flipped bit."""
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    damage(copy / NAME, 2_000_000)
    return copy


def check(integrity: Box, root: Path, *options: AnyPath, env: dict[str, str], has_time: bool) -> None:
    """Show the difference, and insist on what it is."""
    done = integrity.run("--json", "compare", "--blocks", root / NAME, "--with", *options, expect=1, env=env)
    (found,) = done.of_type("difference")
    assert ("one_bit", True, 1) == (found["shape"], found["is_complete"], found["differing_bits"])
    assert [2_000_000] == [one["offset"] for one in found["ranges"]]  # type: ignore[attr-defined]
    assert has_time == (found["copy_modified_at"] is not None)


@pytest.mark.parametrize("server", [(), (SFTP_ONLY,)], ids=["shell", "sftp"])
def test_by_ssh(root: Path, copy: Path, integrity: Box, sshd: SshBox, server: tuple[str, ...]) -> None:
    """Over SSH the data comes by SFTP or from a shell, and the time with it."""
    if server:
        sshd.restart(*server)
    check(integrity, root, sshd.url(copy), env={"HOME": str(sshd.home)}, has_time=True)


def test_by_rclone(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """Rclone fetches the data."""
    need_programs("rclone")
    config = tmp_path / "rclone.conf"
    config.write_text("[disk]\ntype = local\n")
    check(integrity, root, f"rclone:disk:{copy}", env={"RCLONE_CONFIG": str(config)}, has_time=True)


def test_from_s3(root: Path, copy: Path, integrity: Box, moto: S3Box) -> None:
    """From a store the object is downloaded; it has the time of the upload only, which is none of the file."""
    bucket = moto.make_bucket()
    moto.put(bucket, f"backup/{NAME}", (copy / NAME).read_bytes())
    url = f"s3://{bucket}/backup"
    check(integrity, root, url, "--endpoint", moto.endpoint, env=dict(CLIENT_ENV), has_time=False)
