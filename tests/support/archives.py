"""Repositories of the real restic and borg, for copies that keep versions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import ClassVar

from support import AnyPath
from support.machine import need_programs

PASSWORD = "never-shown-anywhere"


class Archive:
    """
    A repository.

    Args:
        folder: for the repository, a home for its program, and a file with the password.

    Attributes:
        program: that makes it.
        url: as a copy.
        environment: of the program.
    """

    program: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        need_programs(self.program)
        self.place, self.password_file = folder / self.program, folder / "password"
        self.password_file.write_text(f"{PASSWORD}\n")
        home = folder / f"home-{self.program}"
        home.mkdir(exist_ok=True)
        self.environment = {**os.environ, "HOME": str(home), "RESTIC_PASSWORD": PASSWORD, "BORG_PASSPHRASE": PASSWORD}
        self.url = f"{self.program}:{self.place}"
        self._create()

    def _create(self) -> None:
        raise NotImplementedError

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        """Make a backup; ``reads_all``: also of what has the size and time that it had."""
        raise NotImplementedError

    def run(self, *words: AnyPath, cwd: Path | None = None) -> str:
        """Run the program."""
        done = subprocess.run(
            [self.program, *words], env=self.environment, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 3), done.stderr  # 3: restic left something out
        return done.stdout

    def find_data(self) -> list[Path]:
        """List the files with the data of backups, the largest first."""
        return sorted(
            (one for one in (self.place / "data").rglob("*") if one.is_file()), key=lambda one: -one.stat().st_size
        )


class Restic(Archive):
    """A repository of restic."""

    program = "restic"

    def _create(self) -> None:
        self.run("-q", "-r", self.place, "init")

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        options = [*(["--force"] if reads_all else []), *(["--host", host] if host else [])]
        self.run("-q", "-r", self.place, "--no-cache", "backup", *options, *folders, cwd=cwd)


class Borg(Archive):
    """A repository of borg."""

    program = "borg"

    def _create(self) -> None:
        self.run("init", "--encryption", "repokey", self.place)

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        assert not host, "borg notes the name of this machine"
        name = f"{self.place}::backup-{len(self.run('list', '--short', self.place).splitlines()) + 1}"
        self.run("create", *(["--files-cache=disabled"] if reads_all else []), name, *folders, cwd=cwd)


ARCHIVES = (Restic, Borg)
