"""Repairs and parity as commands and pages show them: what is damaged, where it is intact, and the proof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields
from integrity.units import format_duration, format_size
from integrity.words.card import Card, Row
from integrity.words.findings import find_spans
from integrity.words.text import PLAIN, JsonObject, count, iso_time, local_time

if TYPE_CHECKING:
    from integrity.jobs.parity.estimate import Estimate
    from integrity.jobs.parity.protect import ProtectReport
    from integrity.jobs.repair.apply import RepairedFile
    from integrity.jobs.repair.inspect import Expected
    from integrity.jobs.repair.plan import FilePlan
    from integrity.service.control.requests import RepairPlanned
    from integrity.words.text import Styler


_RUNS_SHOWN = 20


def make_plan_card(plan: FilePlan, styler: Styler, *, applies: bool, has_options: bool = True) -> Card:
    """
    Return what a repair would do to a file, or does if it applies the plan.

    Args:
        has_options: the reader can type --apply and --discard.
    """
    heads = {
        "whole": ("intact: every block is as recorded; nothing to repair", "green"),
        "repairable": ("can be repaired", "green"),
        "no_good_copy": ("CAN'T be repaired", "red"),
        "unreachable": ("can't be repaired now", "yellow"),
        "refused": ("NOT repaired", "red"),
        "unreadable": ("can't be examined", "yellow"),
    }
    words, color = heads[plan.outcome.value]
    title = f"{show_path(absolute(plan.root, plan.path))}: {styler.style(words, color)}"
    rows = tuple(_list_rows(plan, applies=applies, has_options=has_options))
    return Card(title, facts=plan_object(plan), rows=rows)


def _list_rows(plan: FilePlan, *, applies: bool, has_options: bool) -> Iterator[Row]:
    if plan.reason:
        yield "reason", printable(plan.reason)
    path, expected = absolute(plan.root, plan.path), plan.expected
    if plan.outcome.value == "whole" and plan.kinds:
        yield "next", f"to close its finding:  {program.command('scrub', path)}"
    if plan.outcome.value == "whole" or expected is None:
        return
    if plan.is_gone or plan.inspection is not None:
        yield "differs" if plan.is_decided else "damaged", _describe_damage(plan, expected)
    for supply in plan.supplies:
        yield "source", f"{_blocks(supply.blocks, expected)}: intact in {printable(supply.copy)}"
    if plan.missing:
        yield "no source", f"{_blocks(plan.missing, expected)}: not intact in any copy"
    for copy, trouble in plan.troubles:
        yield "copy", f"{printable(copy)}: {printable(trouble)}"
    if plan.is_newer and plan.outcome.value == "repairable":
        why = "it was written to since it was recorded, perhaps on purpose; to keep its content:"
        yield "caution", f"{why}\n{program.command('accept', path, '--reason WHY')}"
    for other in plan.others:
        yield "", f"also named {show_path(absolute(plan.root, other.path))}; all names are replaced together"
    if plan.outcome.value == "repairable":
        yield "proof", _describe_proof(plan)
        if not applies:
            yield "--apply" if has_options else "repair", "\n".join(_describe_apply(plan, has_options=has_options))


def _describe_damage(plan: FilePlan, expected: Expected) -> str:
    if plan.inspection is None:
        return f"the file is missing; all of it ({format_size(expected.size_bytes)}) comes from the copy"
    parts = []
    if plan.inspection.bad:
        size = format_size(expected.block_size_bytes)
        unit = "" if len(plan.inspection.bad) == expected.count else f"; blocks of {size}, counted from 0"
        parts.append(f"{_blocks(plan.inspection.bad, expected)} ({format_size(plan.damaged_bytes)}{unit})")
    unreadable = sum(length for _, length in plan.inspection.unreadable)
    if unreadable:
        parts.append(f"{unreadable:,} bytes can't be read")
    found = plan.inspection.stat.st_size
    if found != expected.size_bytes:
        parts.append(f"its size is {found:,} bytes instead of {expected.size_bytes:,}")
    return "; ".join(parts)


def _blocks(blocks: tuple[int, ...], expected: Expected) -> str:
    """Write the numbers of blocks, counted from 0: "block 3 of 5"."""
    if len(blocks) == expected.count:
        return "the whole file"
    runs = find_spans(blocks)
    shown = ", ".join(runs[:_RUNS_SHOWN]) + (", ..." if len(runs) > _RUNS_SHOWN else "")
    noun = "block" if len(blocks) == 1 else f"{len(blocks):,} blocks:"
    return f"{noun} {shown} of {expected.count:,}"


def _describe_proof(plan: FilePlan) -> str:
    record = plan.record
    assert record is not None
    verified = "" if record.verified_at is None else f", last verified {local_time(record.verified_at)}"
    recorded = f"the checksums recorded {local_time(record.recorded_at)}{verified}"
    if plan.is_decided:
        return "none but your word: the copy's data was read, and it is not what was recorded"
    if plan.supplies:
        return f"the copy's data was read; it matches {recorded}"
    return f"all blocks of the file match {recorded}; no copy is needed"


def _describe_apply(plan: FilePlan, *, has_options: bool) -> Iterator[str]:
    if plan.inspection is None:
        yield "writes the whole file, verifies it from disk, then moves it into place;"
        whose = "owner of its folder" if plan.owner is None else "owner and group of its copy"
        yield f"it gets the {whose} and its recorded modification time"
        for gone in plan.folders[:1]:
            yield f"the missing folder {show_path(absolute(plan.root, gone.path))} is created again"
        return
    yield "writes the repaired file beside this one, verifies it from disk, then swaps the two;"
    if plan.is_decided:
        yield "owner, mode, ACL, and extended attributes stay as they are; its time is the copy's;"
    else:
        yield "owner, mode, ACL, extended attributes, and times stay as they are;"
    from integrity.jobs.repair.targets import name_backup

    folder, _, name = plan.path.rpartition(b"/")
    kept = name_backup(name, "ID")
    path = absolute(plan.root, folder + b"/" + kept if folder else kept)
    discard = " (--discard deletes it)" if has_options and not plan.is_decided else ""
    yield f"the {'present' if plan.is_decided else 'damaged'} file is kept as {show_path(path)}{discard}"


def plan_object(plan: FilePlan) -> JsonObject:
    expected, record, inspection = plan.expected, plan.record, plan.inspection
    return {
        **path_fields("path", absolute(plan.root, plan.path)),
        **path_fields("root", plan.root),
        "standing": plan.outcome.value,
        "reason": plan.reason,
        "findings": [kind.value for kind in plan.kinds],
        "size_bytes": None if expected is None else expected.size_bytes,
        "found_size_bytes": None if inspection is None else inspection.stat.st_size,
        "block_size_bytes": None if expected is None else expected.block_size_bytes,
        "blocks": None if expected is None else expected.count,
        "damaged_blocks": list(plan.damaged),
        "unreadable_ranges": [] if inspection is None else [list(each) for each in inspection.unreadable],
        "mends": [{"copy": supply.copy, "blocks": list(supply.blocks)} for supply in plan.supplies],
        "missing_blocks": list(plan.missing),
        "copies_asked": list(plan.asked),
        "troubles": [{"copy": copy, "message": message} for copy, message in plan.troubles],
        "folders": [path_fields("path", absolute(plan.root, folder.path)) for folder in plan.folders],
        "is_newer": plan.is_newer,
        "names": [path_fields("path", absolute(plan.root, name)) for name in plan.names],
        "recorded_at": None if record is None else iso_time(record.recorded_at),
        "verified_at": None if record is None else iso_time(record.verified_at),
    }


def write_plan(plan: FilePlan) -> RepairPlanned:
    from integrity.service.control.requests import RepairPlanned

    card = make_plan_card(plan, PLAIN, applies=False, has_options=False)
    return RepairPlanned(json.dumps(card.facts), card.title, card.rows, plan.token)


def repaired_object(done: RepairedFile) -> JsonObject:
    kept: JsonObject = {"kept": None} if done.kept is None else path_fields("kept", done.kept)
    return {
        **path_fields("path", absolute(done.plan.root, done.plan.path)),
        **path_fields("root", done.plan.root),
        "is_repaired": done.is_repaired,
        **kept,
        "mends": [{"copy": supply.copy, "blocks": list(supply.blocks)} for supply in done.plan.supplies],
        "message": done.message,
    }


_LEFT_SHOWN = 20


def describe_estimate(one: Estimate) -> Iterator[str]:
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
