"""Repositories of the real restic and borg, for copies that keep versions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import ClassVar

import pytest

from support import AnyPath
from support.cli import Box, Completed
from support.machine import need_programs
from support.planted import plant, plant_path
from support.waiting import wait_until

PASSWORD = "never-shown-anywhere"
COUNT, LARGE = 12, 3_000_000


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

    def back_up(
        self,
        *folders: AnyPath,
        reads_all: bool = False,
        cwd: Path | None = None,
        host: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        """Make a backup; ``reads_all``: also of what has the size and time that it had."""
        raise NotImplementedError

    def forget(self, number: int) -> None:
        """Remove a backup, counted from the oldest, and its data."""
        raise NotImplementedError

    @contextmanager
    def begin_backup(self) -> Iterator[None]:
        """Hold the lock of a backup under way; at the end it succeeds."""
        line, lock = self._back_up_input()
        with subprocess.Popen([self.program, *line], env=self.environment, stdin=subprocess.PIPE) as process:
            wait_until(lambda: any(self.place.glob(lock)), "the lock of a backup")
            yield
            process.communicate(b"what is backed up")
        assert process.returncode == 0

    def _back_up_input(self) -> tuple[Sequence[AnyPath], str]:
        """Return how the program backs up its input, and which files in the repository are its lock."""
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

    def back_up(
        self,
        *folders: AnyPath,
        reads_all: bool = False,
        cwd: Path | None = None,
        host: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        options = [
            *(["--force"] if reads_all else []),
            *(["--host", host] if host else []),
            *(f"--tag={tag}" for tag in tags),
        ]
        self.run("-q", "-r", self.place, "--no-cache", "backup", *options, *folders, cwd=cwd)

    def forget(self, number: int) -> None:
        found = json.loads(self.run("-r", self.place, "--no-cache", "snapshots", "--json"))
        oldest = sorted(found, key=lambda one: str(one["time"]))
        self.run("-q", "-r", self.place, "--no-cache", "forget", "--prune", str(oldest[number]["id"]))

    def _back_up_input(self) -> tuple[Sequence[AnyPath], str]:
        return ["-q", "-r", self.place, "--no-cache", "backup", "--stdin"], "locks/*"


class Borg(Archive):
    """A repository of borg."""

    program = "borg"
    _backups = 0

    def create(self) -> None:
        self.run("init", "--encryption", "repokey", self.place)

    def back_up(
        self,
        *folders: AnyPath,
        reads_all: bool = False,
        cwd: Path | None = None,
        host: str = "",
        tags: Sequence[str] = (),
    ) -> None:
        assert (host, tags) == ("", ()), "borg notes the name of this machine, and has no tags"
        self._backups += 1
        options = ["--files-cache=disabled"] if reads_all else []
        self.run("create", *options, f"{self.place}::backup-{self._backups}", *folders, cwd=cwd)

    def forget(self, number: int) -> None:
        names = self.run("list", "--short", self.place).splitlines()
        self.run("delete", f"{self.place}::{names[number]}")
        self.run("compact", "--threshold", "0", self.place)

    def _back_up_input(self) -> tuple[Sequence[AnyPath], str]:
        return ["create", f"{self.place}::input", "-"], "lock.exclusive"


ARCHIVES = (Restic, Borg)


class Pair:
    """
    A root, a repository with backups of it, and a configuration that names it.

    Attributes:
        large: a file of several blocks.
        small: another file.
        real: the program of the repository.
    """

    def __init__(self, integrity: Box, folder: Path, kind: type[Archive]) -> None:
        self.integrity, self.archive = integrity, kind(folder)
        self.root = plant(folder / "root", COUNT, size_bytes=3000)
        self.small, self.large = plant_path(self.root, 5), self.root / "large.bin"
        self.large.write_bytes(os.urandom(LARGE))
        self.real = shutil.which(kind.program)
        self.configure()

    def configure(self, **more: str | Sequence[str]) -> None:
        """Name the repository "nightly"."""
        own = {"name": "nightly", "of": str(self.root), "url": self.archive.url}
        keys = {**own, "password_file": str(self.archive.password_file), **more}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value)
        self.integrity.configure(f'[[root]]\npath = "{self.root}"\n[[copy]]\n{lines}')

    def run(self, *args: str | Path, expect: int = 0) -> Completed:
        """Run the program."""
        return self.integrity.run("--json", *args, expect=expect, timeout=120)

    def compare(self, *options: str, expect: int = 0) -> Completed:
        """Compare all with the repository."""
        return self.run("compare", "--with", "nightly", *options, expect=expect)


def with_archives(*, long: type[Archive] | None = None) -> pytest.MarkDecorator:
    """Try a test with each kind of repository, with one of them in the long run only."""
    kinds = [pytest.param(one, marks=pytest.mark.long if one is long else (), id=one.program) for one in ARCHIVES]
    return pytest.mark.parametrize("pair", kinds, indirect=True)
