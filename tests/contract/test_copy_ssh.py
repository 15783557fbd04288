"""A folder on another machine as a copy, by a real sshd: with a shell and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.copysuite import CopySuite, MakeCopy
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy
from support.sshbox import SFTP_ONLY, SshBox, make_sshbox


class TestSsh(CopySuite):
    options: tuple[str, ...] = ()

    @pytest.fixture
    def box(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshBox]:
        with make_sshbox(tmp_path, monkeypatch, *self.options) as box:
            yield box

    @pytest.fixture
    def make(self, box: SshBox) -> MakeCopy:
        return lambda folder: open_copy(box.url(folder))

    @pytest.fixture
    def gone(self, box: SshBox, tmp_path: Path) -> Copy:
        return open_copy(box.url(tmp_path / "not" / "mounted"))


class TestSftp(TestSsh):
    options = (SFTP_ONLY,)
