"""``integrity catalog stats``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog.own_files import backup_name
from integrity.errors import show_path
from integrity.paths import path_fields
from integrity.units import format_duration, format_size
from integrity.words.text import JsonObject, count, iso_time, local_time

if TYPE_CHECKING:
    from integrity.catalog.maintenance import BackupFile, Stats

_SHARES = {
    "file": "names, times, and checksums of files",
    "folder": "names, times, and checksums of files",
    "block_run": "checksums of blocks, which say where a large file is damaged",
    "version": "other versions: former ones, changes that wait, and deleted files (kept for 90 days)",
    "copy": "what backup copies contain",
    "copy_file": "what backup copies contain",
    "copy_reading": "what backup copies contain",
}
_REST = "findings, runs, messages, and the rest"
_DAY_S = 86_400


def describe_stats(path: bytes, stats: Stats, backups: list[BackupFile], now: int) -> Iterator[str]:
    yield show_path(path)
    places = count(stats.roots, "watched folder")
    yield f"  records    {count(stats.files, 'file')} ({format_size(stats.data_bytes)}) in {places}"
    each = f", {format_size(stats.file_bytes / stats.files)} per file" if stats.files else ""
    log = f"; and {format_size(stats.log_bytes)} of changes that are not merged yet" if stats.log_bytes else ""
    yield f"  size       {format_size(stats.file_bytes)}{each}{log}"
    shares = find_shares(stats)
    for words, size in shares.items():
        yield f"             {format_size(size):>8}  {words}"
    if stats.free_bytes:
        yield f"             {format_size(stats.free_bytes):>8}  free, and used again before the file grows"
    yield f"  growth     {_describe_growth(stats, backups, now)}"
    yield f"  made       {local_time(stats.created_at)}, {format_duration(max(0, now - stats.created_at))} ago"
    yield f"  backup     {_describe_backup(path, stats, backups, now)}"


def find_shares(stats: Stats) -> dict[str, int]:
    """Return the bytes of each kind of content, the largest first; nothing if SQLite does not tell."""
    shares: dict[str, int] = {}
    for table in stats.tables:
        words = _SHARES.get(table.name, _REST)
        shares[words] = shares.get(words, 0) + (table.bytes or 0)
    return dict(sorted(((words, size) for words, size in shares.items() if size), key=lambda one: -one[1]))


def find_growth(stats: Stats, backups: list[BackupFile], now: int) -> tuple[BackupFile, float] | None:
    """Return the oldest backup and the bytes a day that the catalog grew since; None without one a day old."""
    oldest = backups[0] if backups else None
    if oldest is None or now - oldest.made_at < _DAY_S:
        return None
    return oldest, (stats.file_bytes - oldest.size_bytes) * _DAY_S / (now - oldest.made_at)


def _describe_growth(stats: Stats, backups: list[BackupFile], now: int) -> str:
    found = find_growth(stats, backups, now)
    if found is None:
        return "not known yet: that needs a backup of the catalog that is a day old"
    oldest, rate = found
    change = "no growth" if rate <= 0 else f"{format_size(rate)} a day"
    return f"{change}, since the backup of {local_time(oldest.made_at)} ({format_size(oldest.size_bytes)})"


def _describe_backup(path: bytes, stats: Stats, backups: list[BackupFile], now: int) -> str:
    make = program.command("catalog backup FOLDER")
    if stats.last_backup_at is None:
        return f"none yet; make one, best on another disk:  {make}"
    age = f"{local_time(stats.last_backup_at)}, {format_duration(max(0, now - stats.last_backup_at))} ago"
    name = backup_name(path, stats.last_backup_at)
    for one in backups:
        if os.path.basename(one.path) == name:
            return f"{age}: {show_path(one.path)}"
    others = f"; the newest there: {show_path(backups[-1].path)}" if backups else ""
    return f"{age}, but it is not in the configured folder (any more){others}"


def describe_tables(stats: Stats) -> Iterator[str]:
    yield f"  schema     {stats.revision}, id {stats.uuid}"
    for table in stats.tables:
        size = "" if table.bytes is None else format_size(table.bytes)
        yield f"  {table.name:<16} {table.rows:>14,} rows  {size:>10}"


def stats_object(path: bytes, stats: Stats, backups: list[BackupFile], now: int) -> JsonObject:
    growth = find_growth(stats, backups, now)
    return path_fields("path", path) | {
        "uuid": stats.uuid,
        "created_at": iso_time(stats.created_at),
        "revision": stats.revision,
        "roots": stats.roots,
        "files": stats.files,
        "data_bytes": stats.data_bytes,
        "file_bytes": stats.file_bytes,
        "log_bytes": stats.log_bytes,
        "free_bytes": stats.free_bytes,
        "growth_bytes_per_day": None if growth is None else round(growth[1]),
        "last_backup_at": iso_time(stats.last_backup_at),
        "tables": [{"name": table.name, "rows": table.rows, "bytes": table.bytes} for table in stats.tables],
    }
