"""A repository of BorgBackup as a copy: borg 1.2 and later releases of 1, local or over SSH."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from tempfile import TemporaryDirectory

from integrity.copies.archive import ArchiveCopy
from integrity.copies.program import Running, parse_time
from integrity.copies.repository import ArchiveOptions, Backup, Item, Repository
from integrity.copies.versions import CopyVersion
from integrity.paths import shell_word


class BorgRun(Running):
    """One run of borg, which logs JSON."""

    def reason(self) -> str:
        """Return the first error of its log: a traceback follows some."""
        for line in self.log_lines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("levelname") in ("ERROR", "CRITICAL"):
                return str(entry.get("message"))
        return super().reason()


class BorgRepository(Repository):
    """A repository of borg; see ``Repository``."""

    name = "borg"
    package = "borgbackup"
    runs = BorgRun
    ended_well = frozenset({0, 1})

    def __init__(self, shown: str, address: str, options: ArchiveOptions) -> None:
        super().__init__(shown, address, options)
        self._own = ""

    def suggest(self) -> str:
        """See ``Repository``."""
        return f"borg list {shell_word(self.shown.removeprefix('borg:'))}"

    def make_environment(self, password_fd: int | None) -> Mapping[str, str]:
        """See ``Repository``."""
        if not self._own:
            # What borg notes of repositories that it has seen is its owner's.
            self._own = self.cleanup.enter_context(TemporaryDirectory(prefix="integrity-borg-"))
            if self.user is not None:
                os.chown(self._own, self.user.pw_uid, self.user.pw_gid)
        environment = {
            "BORG_REPO": self.address,
            "BORG_CACHE_DIR": f"{self._own}/cache",
            "BORG_SECURITY_DIR": f"{self._own}/security",
            # It is only read, so nothing is given away to a repository that was exchanged.
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        if password_fd is not None:
            environment["BORG_PASSPHRASE_FD"] = str(password_fd)
        if self.options.password_command:
            environment["BORG_PASSCOMMAND"] = self.options.password_command
        return environment

    def _start(self, *words: str | bytes) -> Running:
        return self.run([words[0], "--log-json", "--bypass-lock", *words[1:]])

    def find_backups(self) -> list[Backup]:
        """See ``Repository``."""
        with self._start("list", "--json", "--format={hostname}{comment}") as running:
            printed = b"".join(running.lines())
            if running.wait() != 0:
                raise self.failed(running.reason())
        try:
            found = [(one, parse_time(f"{one['start']}+00:00")) for one in json.loads(printed)["archives"]]
            return [
                Backup(CopyVersion(one["name"], time_ns // 10**9), one["hostname"], ())
                for one, time_ns in found
                if time_ns is not None and not re.search(r"\.checkpoint(\.\d+)?$", one["name"])
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise self.failed(f"what borg says of its archives can't be understood ({error})") from error

    def start_listing(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("list", "--json-lines", f"::{version.name}", *_below(path))

    def read_item(self, line: bytes) -> Item | None:
        """See ``Repository``."""
        item = json.loads(line)
        path = item["path"].encode("utf-8", "surrogatepass")
        is_file = item["type"] == "-"
        # A hard link to a file that was archived before has that one's content, and no size of its own.
        link_to = item["source"].encode("utf-8", "surrogatepass") if is_file else b""
        size = item["size"] if is_file and not link_to else None
        mtime_ns = parse_time(f"{item['mtime']}+00:00")
        return Item(path, is_file, item["type"] == "d", size, mtime_ns, is_lossy=b"?" in path, link_to=link_to)

    def start_tar(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("export-tar", f"::{version.name}", "-", *_below(path))

    def start_file(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("extract", "--stdout", f"::{version.name}", *_below(path))

    def start_diff(self, older: CopyVersion, newer: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("diff", "--json-lines", "--content-only", f"::{older.name}", newer.name, *_below(path))

    def read_change(self, line: bytes) -> bytes | None:
        """See ``Repository``."""
        item = json.loads(line)
        if not any(change.get("type") == "modified" for change in item["changes"]):
            return None
        path: bytes = item["path"].encode("utf-8", "surrogatepass")
        return path


class BorgCopy(ArchiveCopy):
    """A repository of borg as a copy; see ``ArchiveCopy``."""

    kind = BorgRepository


def _below(path: bytes) -> list[bytes]:
    """Return the pattern of what lies at and below a path; none for all."""
    return [b"pp:" + path] if path else []
