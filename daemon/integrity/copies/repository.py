"""
A repository of backups that a program made, packed, perhaps encrypted, and how that program is asked about it.

I1  A repository is only read, without a lock, so no backup and no clean-up of its owner fails because of it.
I2  As root, the program runs as the owner of a local repository.
I3  No password stands on a command line, and none in a message.
I4  Of a local repository the program may read what the service may; it gets no other right.
"""

from __future__ import annotations

import os
import pwd
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import ClassVar, NamedTuple

from integrity.config.copy_urls import hide_passwords
from integrity.copies.program import Running
from integrity.copies.versions import CopyVersion
from integrity.errors import ConfigError, CopyUnreachable, show_path

_IDLE_S = 600.0  # a remote repository of many packs is silent for minutes
_MOST_PASSWORD_BYTES = 1 << 16  # as much as a pipe takes at once
_MOST_TOLD = 300  # characters of a message


class ArchiveOptions(NamedTuple):
    """
    What a configuration says of a repository besides its address.

    Attributes:
        path: of the folder in its backups; empty: to be found.
        host: the machine that made the backups; empty: this one, or the only one.
        tags: that backups must have.
        password_file: path of a file with the password; empty: none.
        password_command: that prints the password; empty: none.
    """

    path: bytes = b""
    host: str = ""
    tags: tuple[str, ...] = ()
    password_file: bytes = b""
    password_command: str = ""


class Backup(NamedTuple):
    """A backup of a repository: a version, the machine that made it, and the folders that it names; empty: unknown."""

    version: CopyVersion
    host: str
    folders: tuple[bytes, ...]


class Item(NamedTuple):
    """
    One object of a backup.

    Attributes:
        path: in the backup, without a slash at its beginning.
        size_bytes: None where only the file it is a hard link to has it.
        is_lossy: the program may not have printed the name as it is.
        link_to: the path of that file.
    """

    path: bytes
    is_file: bool
    is_folder: bool
    size_bytes: int | None
    mtime_ns: int | None
    is_lossy: bool = False
    link_to: bytes = b""


def is_local(address: str) -> bool:
    """Return whether the address of a repository is a path."""
    return address.startswith(("/", ".")) or ":" not in address


class Repository(ABC):
    """
    A repository and the program that reads it; see ``ReadingProgram``.

    Args:
        shown: its URL for people.
        address: as the program takes it.
        options: of the configuration.

    Attributes:
        name: of the program.
        package: that installs it.
        runs: a run of it.
        ended_well: exit codes of listings that are whole, though the program may have warned.
        cleanup: what is undone when the repository is left.
        is_local: its address is a path of this machine.
    """

    name: str
    package: str
    runs: ClassVar[type[Running]] = Running
    ended_well: ClassVar[frozenset[int]] = frozenset({0})

    def __init__(self, shown: str, address: str, options: ArchiveOptions) -> None:
        if not address or "\0" in address:
            raise ConfigError(f"{shown}: names no repository; it is written {self.name}:REPOSITORY")
        if ":...@" in address:
            raise ConfigError(f"{shown}: its password is not kept; name it by its whole URL, or make it a [[copy]]")
        self.is_local = is_local(address)
        self.address = address
        if not self.is_local and re.match(r"(\w+:)*(//)?([^/@]*@)?-", address):
            raise ConfigError(f"{shown}: names a machine that begins with a dash, which would be taken for an option")
        self.shown = shown
        self.options = options
        self.idle_s = _IDLE_S
        self.must_stop: Callable[[], bool] = lambda: False
        self.cleanup = ExitStack()
        self.user: pwd.struct_passwd | None = None

    @abstractmethod
    def find_backups(self) -> list[Backup]:
        """List all whole backups."""

    @abstractmethod
    def start_listing(self, version: CopyVersion, path: bytes) -> Running:
        """Start listing what lies at and below a path of a backup."""

    @abstractmethod
    def read_item(self, line: bytes) -> Item | None:
        """Parse a line of a listing; None for other lines. Raises ValueError, KeyError or TypeError."""

    @abstractmethod
    def start_tar(self, version: CopyVersion, path: bytes) -> Running:
        """Start writing a folder of a backup, or all of it, as a tar archive in the order of the listing."""

    @abstractmethod
    def start_file(self, version: CopyVersion, path: bytes) -> Running:
        """Start writing the content of one file."""

    @abstractmethod
    def start_diff(self, older: CopyVersion, newer: CopyVersion, path: bytes) -> Running:
        """Start listing the differences of two backups, at and below a path or in more."""

    @abstractmethod
    def read_change(self, line: bytes) -> bytes | None:
        """Parse a line of a diff: the path of a file that both have, with content that may differ; else None."""

    @abstractmethod
    def make_environment(self, password_fd: int | None) -> Mapping[str, str]:
        """Return what the program is told by its environment; ``password_fd``: where it reads the password."""

    @abstractmethod
    def suggest(self) -> str:
        """Return a command that shows whether the program can read the repository."""

    def run(self, words: Sequence[str | bytes]) -> Running:
        """Start the program; its output is what is asked for."""
        with ExitStack() as stack:
            password_fd = self._pass_password(stack) if self.options.password_file else None
            environment = {"TZ": "UTC", "LC_ALL": "C.UTF-8", **self.make_environment(password_fd)}
            if self.user is not None:
                environment["HOME"] = self.user.pw_dir
            return self.runs(
                *(self, [self.name, *words]),
                package=self.package,
                environment=environment,
                user=self.user,
                passes=() if password_fd is None else (password_fd,),
                may_read_all=self.is_local,
            )

    def _pass_password(self, stack: ExitStack) -> int:
        """Return a pipe with the content of the password file, which the program itself may not be able to open."""
        path = self.options.password_file
        try:
            with open(path, "rb") as file:
                password = file.read(_MOST_PASSWORD_BYTES)
        except OSError as error:
            raise CopyUnreachable(
                f"{self.shown}: its password_file {show_path(path)} can't be read: {error.strerror}; correct its name,"
                " or let the user that integrity runs as read it"
            ) from error
        reading, writing = os.pipe()
        stack.callback(os.close, reading)
        with open(writing, "wb") as file:
            file.write(password)
        if self.user is not None:
            os.fchown(reading, self.user.pw_uid, self.user.pw_gid)  # it opens it by its name in /dev/fd
        return reading

    def failed(self, reason: str) -> CopyUnreachable:
        """Return the error that the repository can't be read; see ``ReadingProgram``."""
        lacks_password = not (self.options.password_file or self.options.password_command)
        is_refused = lacks_password and re.search("passw|passphrase", reason, re.IGNORECASE)
        advice = "; name its password_file or password_command in its [[copy]]" if is_refused else ""
        return CopyUnreachable(
            f"{self.shown}: {self.hide(reason)}{advice}; see what {self.name} says of it: {self.suggest()}"
        )

    def hide(self, reason: str) -> str:
        """Return a message of the program as one line, without passwords."""
        return " ".join(hide_passwords(reason).split())[:_MOST_TOLD]

    def find_owner(self) -> pwd.struct_passwd | None:
        """
        Return whose the repository is, for root; None: it is read as this user.

        Raises:
            CopyUnreachable: it is not there, or belongs to nobody.
        """
        if os.geteuid() != 0 or not self.is_local:
            return None
        try:
            owner = os.stat(self.address).st_uid
        except OSError as error:
            raise CopyUnreachable(
                f"{self.shown}: can't be opened: {error.strerror}; mount its disk, or correct the path"
            ) from error
        try:
            return pwd.getpwuid(owner) if owner else None
        except KeyError as error:
            raise CopyUnreachable(
                f"{self.shown}: belongs to the user {owner}, whom this machine does not know;"
                " give it to a user of this machine"
            ) from error
