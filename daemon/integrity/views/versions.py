"""The versions of a backup as commands show them: which have a file whole, and what changed silently in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.errors import printable, show_path
from integrity.paths import path_fields, shell_path, shell_word
from integrity.verdict import CopyVote
from integrity.views.objects import JsonObject, iso_time
from integrity.views.text import count, exact_time, local_time

if TYPE_CHECKING:
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.versions.history import SilentChange
    from integrity.jobs.versions.of_file import CopyHistory, FileInVersions
    from integrity.jobs.versions.of_folder import ComparedVersion, ToldFile
    from integrity.model import SeenVersion

_WORDS = {
    CopyVote.SAME: "intact: as recorded",
    CopyVote.OLDER: "an older version that was recorded",
    CopyVote.DIFFERS: "another content, never recorded",
    CopyVote.MISSING: "not in the backup",
    CopyVote.UNREADABLE: "UNREADABLE",
    CopyVote.NOT_COMPARABLE: "not comparable",
}
_SILENT_AFTER = (
    "another content of the recorded size and time: one of the two was DAMAGED, or rewritten under its old time"
)
_SILENT_BEFORE = (
    "another content of the recorded size and time, read before yours was recorded: until then YOUR FILE was damaged,"
    " or rewritten under its old time"
)
_HERE = {
    "older": "has the older content",
    "newer": "has the newer content",
    "other": "has another content than either",
    "not_recorded": "has none: no such file is recorded",
}


class SeenSpan(NamedTuple):
    """
    Consecutive versions of a copy that have the same of a file, as far as it was recorded with a finding.

    Attributes:
        versions: how many.
    """

    content: CopyVote
    is_silent: bool
    versions: int
    first_at: int
    last_at: int

    def __str__(self) -> str:
        """Write what they have, and from when they are."""
        words = "another content under the recorded size and time" if self.is_silent else _WORDS[self.content]
        first, last = local_time(self.first_at), local_time(self.last_at)
        return f"{words}, {count(self.versions, 'version')}, {last if first == last else f'{first} to {last}'}"


def join_seen(seen: Iterable[SeenVersion]) -> dict[str, list[SeenSpan]]:
    """Join what consecutive versions have of a file, by copy, the newest first."""
    joined: dict[str, list[SeenSpan]] = {}
    for (copy, content, is_silent), versions in groupby(seen, lambda one: (one.copy, one.content, one.is_silent)):
        times = [one.taken_at for one in versions]
        span = SeenSpan(CopyVote(content), is_silent, len(times), times[-1], times[0])
        joined.setdefault(copy, []).append(span)
    return joined


def describe_history(path: bytes, history: CopyHistory) -> Iterator[str]:
    """Write which versions of a copy have a file whole, the newest first, and how to take it from there."""
    copy = printable(history.copy)
    if history.trouble:
        yield f"  {copy}: can't be looked at: {history.trouble}"
        return
    good, all_of_it = history.good, sum(len(one.versions) for one in history.found)
    last = f", last of {_show(good[0])}" if good else ""
    yield f"  {copy}: intact in {len(good):,} of {count(all_of_it, 'version')}{last}"
    for one in history.found:
        first, newest = one.versions[0], one.versions[-1]
        span = _show(newest) if first == newest else f"{local_time(first.taken_at)} to {_show(newest)}"
        reason = f": {one.reason}" if one.reason else ""
        yield f"    {span}: {_describe(one, is_from_before=history.is_from_before(one))}{reason}"
    if good:
        command = f"repair {shell_path(path)} --from {shell_word(history.copy)}"
        yield f"    - if the file is damaged or missing, show what a repair would do:  {program.command(command)}"


def _describe(one: FileInVersions, *, is_from_before: bool) -> str:
    size = "" if one.entry is None or one.entry.size_bytes is None else f", {one.entry.size_bytes:,} bytes"
    time = "" if one.entry is None or one.entry.mtime_ns is None else f", modified {exact_time(one.entry.mtime_ns)}"
    several = f" ({len(one.versions):,} versions)" if len(one.versions) > 1 else ""
    words = _WORDS[one.vote]
    if one.is_silent:
        words = _SILENT_BEFORE if is_from_before else _SILENT_AFTER
    return f"{words}{several}{size}{time}"


def _show(version: CopyVersion) -> str:
    return f"{local_time(version.taken_at)} ({printable(version.name)})"


def version_objects(path: bytes, history: CopyHistory) -> Iterator[JsonObject]:
    """Write one object for each version, the newest first."""
    for one in history.found:
        for version in reversed(one.versions):
            yield {
                **path_fields("path", path),
                "copy": history.copy,
                "version": version.name,
                "taken_at": iso_time(version.taken_at),
                "content": one.vote.value,
                "is_silent": one.is_silent,
                "is_from_before": history.is_from_before(one),
                "size": None if one.entry is None else one.entry.size_bytes,
                "mtime_ns": None if one.entry is None else one.entry.mtime_ns,
                "reason": one.reason or None,
            }


_COUNTED = {
    "same": "as recorded",
    "listed": "of the recorded size and time, not read",
    "other": "of another size or time, not read",
    "silent": "OTHER CONTENT under the recorded size and time",
    "older": "older, as recorded before",
    "differs": "other content",
    "missing": "not in it",
    "unreadable": "UNREADABLE",
    "extra": "not recorded here",
}


def describe_compared_version(found: ComparedVersion) -> str:
    """Write how many files of a version are what, in one line."""
    parts = [f"{found.counts[word]:,} {words}" for word, words in _COUNTED.items() if found.counts[word]]
    return f"{_show(found.version)}: {', '.join(parts) or 'no files'}"


def compared_version_object(found: ComparedVersion, copy: str) -> JsonObject:
    """Write how many files of a version are what."""
    counts = {f"files_{word}": found.counts[word] for word in _COUNTED}
    return {"copy": copy, "version": found.version.name, "taken_at": iso_time(found.version.taken_at), **counts}


def describe_told_file(told: ToldFile) -> str:
    """Write a file of a version that can't be read, or that changed silently."""
    words = f"UNREADABLE: {told.reason}" if told.reason else _SILENT_AFTER
    return f"  {show_path(told.path)}: {words}"


def told_file_object(told: ToldFile, copy: str) -> JsonObject:
    """Write a file of a version that can't be read, or that changed silently."""
    return {
        **path_fields("path", told.path),
        "copy": copy,
        "version": told.version.name,
        "taken_at": iso_time(told.version.taken_at),
        "reason": told.reason or None,
    }


def describe_silent_change(change: SilentChange) -> Iterator[str]:
    """Write a file that changed silently between two versions."""
    yield f"Changed under the same time  {show_path(change.path)}"
    yield f"    {change.size_bytes:,} bytes, modified {exact_time(change.mtime_ns)}, before and after"
    yield f"    between the versions of {_show(change.older)} and {_show(change.newer)}"
    yield f"    the file here {_HERE[change.here]}"
    yield "    Either it was damaged, or a program rewrote it and put its time back."


def silent_change_object(change: SilentChange, copy: str) -> JsonObject:
    """Write a file that changed silently between two versions."""
    return {
        **path_fields("path", change.path),
        "copy": copy,
        "older": change.older.name,
        "older_taken_at": iso_time(change.older.taken_at),
        "newer": change.newer.name,
        "newer_taken_at": iso_time(change.newer.taken_at),
        "size": change.size_bytes,
        "mtime_ns": change.mtime_ns,
        "here": change.here.value,
    }
