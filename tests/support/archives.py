"""Repositories of the real restic and borg, for copies that keep versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
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
        self.environment = make_environment(home) | {"BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"}
        self.url = f"{self.program}:{self.place}"
        shutil.copytree(make_template(self.program), self.place)

    def create(self) -> None:
        """Make the repository, without backups."""
        raise NotImplementedError

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        """Make a backup; ``reads_all``: also of what has the size and time that it had."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """Remove a backup, counted from the oldest, and its data."""
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


@cache
def make_template(program: str) -> Path:
    """Make an empty repository to be copied: a key takes long to make, on purpose."""
    kind = next(one for one in ARCHIVES if one.program == program)
    made = kind.__new__(kind)
    made.place = Path(tempfile.mkdtemp(prefix="template-")) / program
    made.environment = make_environment(made.place.parent)
    made.create()
    return made.place


def make_environment(home: Path) -> dict[str, str]:
    """Return the environment of a program with a home of its own, and the password."""
    return {**os.environ, "HOME": str(home), "RESTIC_PASSWORD": PASSWORD, "BORG_PASSPHRASE": PASSWORD}


class Restic(Archive):
    """A repository of restic."""

    program = "restic"

    def create(self) -> None:
        self.run("-q", "-r", self.place, "init")

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        options = [*(["--force"] if reads_all else []), *(["--host", host] if host else [])]
        self.run("-q", "-r", self.place, "--no-cache", "backup", *options, *folders, cwd=cwd)

    def forget(self, number: int) -> None:
        found = json.loads(self.run("-r", self.place, "--no-cache", "snapshots", "--json"))
        oldest = sorted(found, key=lambda one: str(one["time"]))
        self.run("-q", "-r", self.place, "--no-cache", "forget", "--prune", str(oldest[number]["id"]))


class Borg(Archive):
    """A repository of borg."""

    program = "borg"
    _backups = 0

    def create(self) -> None:
        self.run("init", "--encryption", "repokey", self.place)

    def back_up(self, *folders: AnyPath, reads_all: bool = False, cwd: Path | None = None, host: str = "") -> None:
        assert not host, "borg notes the name of this machine"
        self._backups += 1
        options = ["--files-cache=disabled"] if reads_all else []
        self.run("create", *options, f"{self.place}::backup-{self._backups}", *folders, cwd=cwd)

    def forget(self, number: int) -> None:
        names = self.run("list", "--short", self.place).splitlines()
        self.run("delete", f"{self.place}::{names[number]}")


ARCHIVES = (Restic, Borg)
