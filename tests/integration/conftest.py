"""Fixtures of the integration tests: SSH servers, repositories of backups, and a box that reports to a small hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.archives import Pair
from support.catalogs import CatalogBox
from support.cli import Box
from support.reporting import ReportingBox
from support.smallhub import SmallHub
from support.sshbox import SFTP_ONLY, SshBox, make_sshbox


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshBox]:
    """Run sshd, with a shell."""
    with make_sshbox(tmp_path, monkeypatch) as box:
        yield box


@pytest.fixture(params=["shell", "sftp"])
def each_sshd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshBox]:
    """Run sshd, with a shell and with nothing but SFTP."""
    options = (SFTP_ONLY,) if request.param == "sftp" else ()
    with make_sshbox(tmp_path, monkeypatch, *options) as box:
        yield box


@pytest.fixture
def pair(request: pytest.FixtureRequest, integrity: Box, tmp_path: Path) -> Pair:
    """Make a root with a repository of a kind, which has no backup yet."""
    return Pair(integrity, tmp_path, request.param)


@pytest.fixture
def hub() -> Iterator[SmallHub]:
    """Run a hub that answers rightly."""
    with SmallHub() as made:
        yield made


@pytest.fixture
def reporting(box: CatalogBox, hub: SmallHub) -> Iterator[ReportingBox]:
    """Give a box that reports to the hub."""
    made = ReportingBox(box, hub.url)
    yield made
    made.close()
