"""A copy as commands and pages show it: what of it was compared, how closely, how long ago, and what is open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.config import format_duration
from integrity.errors import printable, show_path
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.paths import absolute, path_fields
from integrity.views.objects import JsonObject, iso_time
from integrity.views.service import ServiceView, find_wait
from integrity.views.text import count, describe_kinds, local_time

if TYPE_CHECKING:
    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.jobs.status import Status
    from integrity.views.text import Styler


def describe_unreachable(name: str, since: int | None) -> str:
    """Say since when a copy can't be reached as a whole; empty if it can."""
    if since is None:
        return ""
    return f"The backup copy {printable(name)} can't be reached since {local_time(since)}: nothing in it is compared."


def describe_copy(one: CopyStatus, status: Status, live: ServiceView, styler: Styler) -> Iterator[str]:
    """Write a few lines on a copy."""
    name = "" if one.name == one.url else f" {printable(one.name)}:"
    yield f"copy{name} {printable(one.url)}  (of {show_path(absolute(one.root.path, one.prefix))})"
    yield f"  compared   {describe_comparisons(one, styler)}"
    level = describe_level(one)
    if level:
        yield f"  level      {level}"
    wait = find_wait(live, one.name)
    if wait is not None:
        yield f"  now        {printable(wait)}"
    unreachable, open_kinds = describe_unreachable(one.name, status.find_unreachable(one)), status.count_open(one)
    if unreachable:
        yield f"  open       {styler.style(unreachable.rstrip('.'), 'yellow')}:  {program.command('findings')}"
    if open_kinds:
        color = "red" if set(open_kinds) & INTEGRITY_PROBLEMS else "yellow"
        yield f"  open       {styler.style(describe_kinds(open_kinds), color)}:  {program.command('findings')}"
    yield ""


def copy_object(one: CopyStatus, live: ServiceView) -> JsonObject:
    """Make the object of a copy."""
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


def describe_comparisons(one: CopyStatus, styler: Styler) -> str:
    """Say how much of it was compared, and when."""
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


def describe_level(one: CopyStatus) -> str:
    """Say how closely its files were looked at."""
    waits = one.waits
    if waits is None or not waits.compared:
        return ""
    stated = waits.same - waits.read
    parts = [f"{waits.read:,} match by reading the data back"] if waits.read else []
    parts += [f"{stated:,} match by the checksum the copy stores"] if stated else []
    parts += [f"{waits.silent:,} could not be compared"] if waits.silent else []
    return ", ".join(parts) or "none matches"
