"""Fixtures of the integration tests: SSH servers on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
