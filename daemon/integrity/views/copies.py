"""Copies as commands and pages show them: what was compared, their versions, both sides of what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.errors import printable, show_path
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.paths import absolute, path_fields, shell_path, shell_word
from integrity.units import format_duration
from integrity.views.service import ServiceView, find_wait
from integrity.words.card import Card, Row
from integrity.words.findings import describe_kinds
from integrity.words.text import JsonObject, count, exact_time, iso_time, list_counts, local_time

if TYPE_CHECKING:
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.byte_pattern import DifferingRange
    from integrity.jobs.compare.byte_difference import FileDifference
    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.jobs.status import Status
    from integrity.jobs.versions.history import SilentChange
    from integrity.jobs.versions.of_file import CopyHistory, FileInVersions
    from integrity.jobs.versions.of_folder import ComparedVersion, ToldFile
    from integrity.model import SeenVersion
    from integrity.words.text import Styler


def describe_unreachable(name: str, since: int | None) -> str:
    """Say since when a copy can't be reached as a whole; empty if it can."""
    if since is None:
        return ""
    return f"The backup copy {printable(name)} can't be reached since {local_time(since)}: nothing in it is compared."


def make_copy_card(one: CopyStatus, status: Status, live: ServiceView, styler: Styler) -> Card:
    name = "" if one.name == one.url else f" {printable(one.name)}:"
    rows = tuple(_list_rows(one, status, live, styler))
    place = f"(of {show_path(absolute(one.root.path, one.prefix))})"
    return Card(f"copy{name} {printable(one.url)}", place, facts=copy_object(one, live), rows=rows)


def _list_rows(one: CopyStatus, status: Status, live: ServiceView, styler: Styler) -> Iterator[Row]:
    yield "compared", _describe_comparisons(one, styler)
    if level := _describe_level(one):
        yield "level", level
    if (wait := find_wait(live, one.name)) is not None:
        yield "now", printable(wait)
    unreachable, open_kinds = describe_unreachable(one.name, status.find_unreachable(one)), status.count_open(one)
    if unreachable:
        yield "open", f"{styler.style(unreachable.rstrip('.'), 'yellow')}:  {program.command('findings')}"
    if open_kinds:
        color = "red" if set(open_kinds) & INTEGRITY_PROBLEMS else "yellow"
        yield "open", f"{styler.style(describe_kinds(open_kinds), color)}:  {program.command('findings')}"


def copy_object(one: CopyStatus, live: ServiceView) -> JsonObject:
    waits = one.waits
    return {
        "name": one.name,
        "url": one.url,
        **path_fields("of", absolute(one.root.path, one.prefix)),
        **path_fields("root", one.root.path),
        "verify_every_s": one.verify_every_s,
        "files": waits.files if waits else None,
        "files_compared": waits.compared if waits else 0,
        "files_same": waits.same if waits else 0,
        "files_read": waits.read if waits else 0,
        "files_not_comparable": waits.silent if waits else 0,
        "files_overdue": waits.overdue if waits else 0,
        "last_compared_at": iso_time(waits.last_compared_at) if waits else None,
        "oldest_comparison_at": iso_time(waits.waits_since) if waits and waits.compared == waits.files else None,
        "next_due_at": iso_time(one.due_at),
        "is_overdue": one.is_overdue,
        "waits": find_wait(live, one.name),
        "findings_open": {kind.value: number for kind, number in sorted(one.open_kinds.items())},
    }


def _describe_comparisons(one: CopyStatus, styler: Styler) -> str:
    waits = one.waits
    promise = "" if one.verify_every_s is None else f" within {format_duration(one.verify_every_s)}"
    if waits is None or waits.last_compared_at is None:
        if one.is_overdue:
            return f"{styler.style('OVERDUE', 'yellow')}: no file by its content yet, and not{promise}"
        due = "" if one.due_at is None else f"; due by {local_time(one.due_at)}"
        return f"no file by its content yet{due}"
    last = f"last {local_time(waits.last_compared_at)}"
    if one.is_overdue:
        late = f"{waits.overdue:,} of {count(waits.files, 'file')} not{promise}"
        return f"{styler.style('OVERDUE', 'yellow')}: {late}; {last}"
    if waits.compared < waits.files:
        some = f"{waits.compared:,} of {count(waits.files, 'file')}"
        return f"{some}, the others not yet, or not since they changed; {last}"
    since = "" if waits.waits_since is None else f", the longest ago {local_time(waits.waits_since)}"
    return f"all of {count(waits.files, 'file')}{promise}{since}"


def _describe_level(one: CopyStatus) -> str:
    waits = one.waits
    if waits is None or not waits.compared:
        return ""
    stated = waits.same - waits.read
    parts = [f"{waits.read:,} match by reading the data back"] if waits.read else []
    parts += [f"{stated:,} match by the checksum the copy stores"] if stated else []
    parts += [f"{waits.silent:,} could not be compared"] if waits.silent else []
    return ", ".join(parts) or "none matches"


_WORDS = {
    "same": "intact: as recorded",
    "older": "an older version that was recorded",
    "differs": "another content, never recorded",
    "missing": "not in the backup",
    "unreadable": "UNREADABLE",
    "not_comparable": "not comparable",
}
"""By what a copy said, as it is stored (``CopyVote``)."""

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
    """Consecutive versions of a copy that have the same of a file, as far as it was recorded with a finding."""

    content: str
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
        span = SeenSpan(content, is_silent, len(times), times[-1], times[0])
        joined.setdefault(copy, []).append(span)
    return joined


def describe_history(path: bytes, history: CopyHistory) -> Iterator[str]:
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
    said = list_counts((found.counts[word], words) for word, words in _COUNTED.items())
    return f"{_show(found.version)}: {said or 'no files'}"


def compared_version_object(found: ComparedVersion, copy: str) -> JsonObject:
    counts = {f"files_{word}": found.counts[word] for word in _COUNTED}
    return {"copy": copy, "version": found.version.name, "taken_at": iso_time(found.version.taken_at), **counts}


def describe_told_file(told: ToldFile) -> str:
    words = f"UNREADABLE: {told.reason}" if told.reason else _SILENT_AFTER
    return f"  {show_path(told.path)}: {words}"


def told_file_object(told: ToldFile, copy: str) -> JsonObject:
    return {
        **path_fields("path", told.path),
        "copy": copy,
        "version": told.version.name,
        "taken_at": iso_time(told.version.taken_at),
        "reason": told.reason or None,
    }


def describe_silent_change(change: SilentChange) -> Iterator[str]:
    yield f"Changed under the same time  {show_path(change.path)}"
    yield f"    {change.size_bytes:,} bytes, modified {exact_time(change.mtime_ns)}, before and after"
    yield f"    between the versions of {_show(change.older)} and {_show(change.newer)}"
    yield f"    the file here {_HERE[change.here]}"
    yield "    Either it was damaged, or a program rewrote it and put its time back."


def silent_change_object(change: SilentChange, copy: str) -> JsonObject:
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


_ROW_BYTES = 8
_HEX_WIDTH = _ROW_BYTES * 3 - 1
_SIDE_WIDTH = _HEX_WIDTH + 2 + _ROW_BYTES


def describe_file_difference(found: FileDifference) -> Iterator[str]:
    from integrity.jobs.byte_pattern import SIDE_NAMES, Side, describe_difference  # here, for --help does without

    difference = found.difference
    place = f"{show_path(found.place)} in {printable(found.copy)}"
    yield show_path(found.path)
    yield f"  your file   {_describe_side(difference.file_bytes, found.file_mtime_ns)}"
    yield f"  the backup  {_describe_side(difference.copy_bytes, found.copy_mtime_ns)}: {place}"
    yield f"  result      {describe_difference(difference) or 'The two are equal.'}"
    if not difference.ranges:
        return
    yield ""
    names = [SIDE_NAMES[side] for side in Side]
    yield f"  {'offset':<14}  {names[0]:<{_SIDE_WIDTH}} | {names[1]}"
    for one in difference.ranges:
        yield from _dump(one)
    more = difference.range_count - len(difference.ranges)
    if more:
        yield f"  {more:,} more range{'' if more == 1 else 's'} not shown"


def _describe_side(size_bytes: int, mtime_ns: int | None) -> str:
    time = "time not known" if mtime_ns is None else f"modified {exact_time(mtime_ns)}"
    return f"{size_bytes:,} bytes, {time}"


def _dump(one: DifferingRange) -> Iterator[str]:
    for at in range(0, len(one.file), _ROW_BYTES):
        sides = (_show_row(data[at : at + _ROW_BYTES]) for data in (one.file, one.copy))
        yield f"  {one.offset + at:>14,}  {' | '.join(sides)}".rstrip()
    more = one.length - len(one.file)
    if more:
        yield f"  {'':>14}  {more:,} more bytes not shown"


def _show_row(data: bytes) -> str:
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)
    return f"{data.hex(' '):<{_HEX_WIDTH}}  {text:<{_ROW_BYTES}}"


def difference_object(found: FileDifference) -> JsonObject:
    from integrity.jobs.byte_pattern import describe_difference

    difference = found.difference
    return {
        **path_fields("path", found.path),
        "copy": found.copy,
        "url": found.url,
        **path_fields("copy_path", found.place),
        "are_equal": difference.are_equal,
        "is_complete": difference.is_complete,
        "file_bytes": difference.file_bytes,
        "copy_bytes": difference.copy_bytes,
        "file_modified_at": iso_time(found.file_mtime_ns // 10**9),
        "copy_modified_at": None if found.copy_mtime_ns is None else iso_time(found.copy_mtime_ns // 10**9),
        "differing_bytes": difference.differing_bytes,
        "differing_bits": difference.differing_bits,
        "shape": difference.shape,
        "side": difference.side,
        "runs": [{"offset": run.offset, "length": run.length, "value": run.value} for run in difference.runs],
        "range_count": difference.range_count,
        "ranges": [
            {"offset": one.offset, "length": one.length, "file": one.file.hex(), "copy": one.copy.hex()}
            for one in difference.ranges
        ],
        "message": describe_difference(difference),
    }
