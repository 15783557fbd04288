"""The parity of a root as commands and pages show it: what it takes, and how much it protects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.config import format_duration, format_size
from integrity.errors import printable, show_path
from integrity.model import Outcome
from integrity.paths import path_fields
from integrity.views.objects import JsonObject, iso_time
from integrity.views.text import count, local_time

if TYPE_CHECKING:
    from integrity.jobs.parity.estimate import Estimate
    from integrity.jobs.parity.protect import ProtectReport
    from integrity.jobs.status import RootStatus

_LEFT_SHOWN = 20


def describe_estimate(one: Estimate) -> Iterator[str]:
    """Write what protecting a path takes."""
    plan = one.plan
    if not plan.files:
        yield f"{show_path(one.path)}: everything that is recorded is protected"
        return
    size = f"{count(plan.files, 'file')} ({format_size(plan.size_bytes)})"
    yield f"{show_path(one.path)}: {size} to protect, by {one.options.percent:g} % of parity"
    free = f"{format_size(one.free_bytes)} free"
    yield f"  space      {format_size(plan.parity_bytes)} in {show_path(one.options.folder)}, {free}"
    yield f"  time       about {format_duration(one.duration_s)} on this machine, or what reading takes if that is more"
    yield f"  sets       {plan.sets:,}; while one is made, its space is needed twice"
    if plan.room_bytes > one.free_bytes:
        yield (
            f"  problem    there is not enough space: {format_size(plan.room_bytes)} must be free, as a disk is not"
            " filled up; what fits would be protected, and the rest not"
        )
    if one.is_same_disk:
        yield "  note       the parity is on the same disk: it helps against damaged sectors only, not a dead disk"
    yield f"This is only a plan; nothing was written. To protect them:  {one.options.spell_command(one.path)}"


def estimate_object(one: Estimate) -> JsonObject:
    """Make the object of what protecting a path takes."""
    return {
        **path_fields("path", one.path),
        **path_fields("folder", one.options.folder),
        "parity_percent": one.options.percent,
        "sets": one.plan.sets,
        "files": one.plan.files,
        "size_bytes": one.plan.size_bytes,
        "parity_bytes": one.plan.parity_bytes,
        "free_bytes": one.free_bytes,
        "duration_s": round(one.duration_s, 1),
        "is_same_disk": one.is_same_disk,
    }


def describe_report(made: ProtectReport) -> Iterator[str]:
    """Write what protecting did."""
    if made.files:
        what = f"{count(made.files, 'file')} ({format_size(made.size_bytes)})"
        yield f"protect: {what} by {format_size(made.parity_bytes)} of parity, in {count(made.sets, 'set')}"
    else:
        yield "protect: nothing new to protect" if not made.is_full else "protect: nothing was protected"
    for path in made.left[:_LEFT_SHOWN]:
        command = program.command("scrub", path)
        yield f"  not protected: {show_path(path)}: it is not what was recorded; check it with: {command}"
    if len(made.left) > _LEFT_SHOWN:
        yield f"  and {len(made.left) - _LEFT_SHOWN:,} more"


def report_object(made: ProtectReport) -> JsonObject:
    """Make the object of what protecting did."""
    return {
        "sets": made.sets,
        "files": made.files,
        "size_bytes": made.size_bytes,
        "parity_bytes": made.parity_bytes,
        "sets_checked": made.checked,
        "sets_damaged": made.damaged,
        "sets_removed": made.removed,
        "files_left": len(made.left),
        "is_full": made.is_full,
    }


def describe_protection(one: RootStatus) -> str:
    """Say how much of a root its parity protects; empty if it has none and shall have none."""
    found, run = one.protection, one.last_protect
    trouble = ""
    if run is not None and run.error:
        trouble = f"; the last attempt failed: {printable(run.error)}"
    elif run is not None and run.outcome is Outcome.INCOMPLETE:
        trouble = f"; the last attempt could not make all of it: {program.command('protect', one.root.path)}"
    if found is None:
        is_wanted = one.settings.parity_percent or run is not None
        return f"none yet: files that have rested for a week get it in the next window{trouble}" if is_wanted else ""
    left = one.coverage.files - found.files
    text = f"protects {format_size(found.bytes)} of {format_size(one.coverage.bytes)}"
    text += f" ({count(left, 'file')} not)" if left > 0 else ", all files"
    text += f"; can heal damage of {found.least_percent:.1f} %, oldest of {local_time(found.oldest_at)}"
    if found.damaged_sets:
        text += f"; {count(found.damaged_sets, 'set')} damaged, to be made anew"
    return text + trouble


def protection_object(one: RootStatus) -> JsonObject | None:
    """Make the object of how much of a root its parity protects."""
    found = one.protection
    if found is None:
        return None
    return {
        "files": found.files,
        "bytes": found.bytes,
        "parity_bytes": found.parity_bytes,
        "least_percent": round(found.least_percent, 2),
        "oldest_at": iso_time(found.oldest_at),
        "damaged_sets": found.damaged_sets,
    }
