"""A repository of restic as a copy: restic 0.14 and later, on every store that it knows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from integrity.copies.archive import ArchiveCopy
from integrity.copies.program import Running, parse_time
from integrity.copies.repository import Backup, Item, Repository
from integrity.copies.versions import CopyVersion
from integrity.paths import shell_word

_LOST = b"\xef\xbf\xbd"  # what restic prints for bytes that are not UTF-8
_ID_DIGITS = 8  # as restic prints it


class ResticRepository(Repository):
    """A repository of restic; see ``Repository``."""

    name = package = "restic"

    def suggest(self) -> str:
        """See ``Repository``."""
        return f"restic -r {shell_word(self.shown.removeprefix('restic:'))} snapshots"

    def make_environment(self, password_fd: int | None) -> Mapping[str, str]:
        """See ``Repository``."""
        environment = {"RESTIC_REPOSITORY": self.address}
        if password_fd is not None:
            environment["RESTIC_PASSWORD_FILE"] = f"/dev/fd/{password_fd}"
        if self.options.password_command:
            environment["RESTIC_PASSWORD_COMMAND"] = self.options.password_command
        return environment

    def _start(self, *words: str | bytes) -> Running:
        # The cache of its owner is not ours to fill, and a local repository needs none.
        cache = ["--no-cache"] if self.is_local else [f"--cache-dir={_find_cache()}"]
        return self.run([words[0], "--no-lock", *cache, *words[1:]])

    def find_backups(self) -> list[Backup]:
        """See ``Repository``."""
        wanted = [f"--tag={tag}" for tag in self.options.tags[:1]]
        with self._start("snapshots", "--json", *wanted) as running:
            printed = b"".join(running.lines())
            if running.wait() != 0:
                raise self.failed(running.reason())
        try:
            found = sorted(json.loads(printed) or [], key=lambda one: parse_time(one["time"]) or 0)
            return [_read_backup(one) for one in found if set(self.options.tags) <= set(one.get("tags") or ())]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.failed(f"what restic says of its snapshots can't be understood ({error})") from error

    def start_listing(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("ls", "--json", "--recursive", "--", version.name, b"/" + path)

    def read_item(self, line: bytes) -> Item | None:
        """See ``Repository``."""
        node = json.loads(line)
        if node.get("struct_type", node.get("message_type")) != "node":
            return None
        path = node["path"].encode("utf-8", "surrogatepass").lstrip(b"/")
        is_file = node["type"] == "file"
        mtime_ns = parse_time(node.get("mtime"))
        return Item(
            path, is_file, node["type"] == "dir", node.get("size", 0) if is_file else None, mtime_ns, _LOST in path
        )

    def start_tar(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("dump", "--archive=tar", "--", version.name, b"/" + path)

    def start_file(self, version: CopyVersion, path: bytes) -> Running:
        """See ``Repository``."""
        return self._start("dump", "--", version.name, b"/" + path)

    def start_diff(self, older: CopyVersion, newer: CopyVersion, path: bytes) -> Running:  # noqa: ARG002 - of all
        """See ``Repository``."""
        return self._start("diff", "--json", "--", older.name, newer.name)

    def read_change(self, line: bytes) -> bytes | None:
        """See ``Repository``."""
        change = json.loads(line)
        if change.get("message_type") != "change" or "M" not in change["modifier"]:
            return None
        path: bytes = change["path"].encode("utf-8", "surrogatepass").lstrip(b"/")
        return path


class ResticCopy(ArchiveCopy):
    """A repository of restic as a copy; see ``ArchiveCopy``."""

    kind = ResticRepository


def _read_backup(snapshot: dict[str, object]) -> Backup:
    name, time_ns, folders = snapshot["id"], parse_time(snapshot["time"]), snapshot["paths"]
    if not isinstance(name, str) or time_ns is None or not isinstance(folders, list):
        raise TypeError("a snapshot without id, time or paths")
    version = CopyVersion(name[:_ID_DIGITS], time_ns // 10**9)
    return Backup(version, str(snapshot.get("hostname", "")), tuple(os.fsencode(str(folder)) for folder in folders))


def _find_cache() -> Path:
    """Return the folder for what restic keeps of remote repositories."""
    own = os.environ.get("CACHE_DIRECTORY")  # of a service
    above = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "integrity"
    return above / "restic"
