"""``integrity repair``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.json_objects import iso_time
from integrity.cli.output import JsonObject, Output, printable
from integrity.cli.params import PATH
from integrity.cli.session import Session
from integrity.errors import show_path
from integrity.paths import absolute, path_fields, shell_path

if TYPE_CHECKING:
    from integrity.jobs.repair.apply import RepairedFile
    from integrity.jobs.repair.inspect import Expected
    from integrity.jobs.repair.plan import FilePlan
    from integrity.jobs.repair.run import RepairOptions, RepairSummary

_RUNS_SHOWN = 20


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="FILE...")
@click.option("--from", "copies", multiple=True, metavar="COPY", help="Take blocks from this copy; may be repeated.")
@click.option("--apply", "applies", is_flag=True, help="Carry out the plan instead of only printing it.")
@click.option("--discard", "discards", is_flag=True, help="Delete the damaged file after the repair is verified.")
@click.option("--endpoint", metavar="URL", help="URL of an S3 server other than Amazon's.")
@click.pass_obj
def repair(
    session: Session,
    files: tuple[bytes, ...],
    copies: tuple[str, ...],
    applies: bool,
    discards: bool,
    endpoint: str | None,
) -> int:
    """
    Repair damaged files from a backup.

    Prints a plan: which blocks are damaged, which copy has them intact, and the proof. With --apply, the repaired
    file is built beside the damaged one, verified as a whole, and exchanged with it; the damaged file is kept
    under a name that is printed. FILE may be a folder: all files below it with an open finding. COPY is a name
    from the configuration, a path, or a URL; without --from, all known copies are tried, and blocks may come from
    several of them.

    Exits with 0 if everything can be or was repaired, 1 if something can't be, 3 if a needed copy could not be
    reached.
    """
    if discards and not applies:
        raise click.UsageError("--discard deletes the damaged file after the repair, so it needs --apply")
    from integrity.jobs.repair.run import RepairOptions

    options = RepairOptions(applies=applies, discards=discards)
    summary, plans, done = _run(session, files, copies, endpoint, options)
    for plan in plans:
        _print_plan(session.output, plan, applies=applies)
    for one in done:
        _print_repaired(session.output, one)
    _print_end(session.output, summary, files, copies, endpoint, applies=applies)
    return _find_code(summary)


def _run(
    session: Session, files: tuple[bytes, ...], copies: tuple[str, ...], endpoint: str | None, options: RepairOptions
) -> tuple[RepairSummary, list[FilePlan], list[RepairedFile]]:
    """Plan, and repair if the options ask for it; plans and repaired files are kept, to be printed below the notes."""
    from integrity.cli.console import ConsoleReport
    from integrity.cli.daemon_client import borrowing
    from integrity.cli.progress import open_progress
    from integrity.cli.running import real_path
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.repair.targets import find_wanted
    from integrity.jobs.runner import make_context, repair

    output = session.output
    plans: list[FilePlan] = []
    done: list[RepairedFile] = []

    def report_plan(plan: FilePlan) -> None:
        output.give("repair_plan", _plan_object(plan))
        plans.append(plan)

    def report_repaired(one: RepairedFile) -> None:
        output.give("repair", _done_object(one))
        done.append(one)

    with stop_on_signals() as stop, session.open_catalog(writes=True) as catalog:
        wanted = find_wanted(catalog, session.config, files, copies, endpoint)
        progress = open_progress(is_quiet=output.is_quiet)
        report = ConsoleReport(output, progress)
        try:
            context = make_context(catalog, session.config, report, jobs=None, stop=stop)
            with borrowing(session, [real_path(file) for file in files], context):
                summary = repair(context, wanted, options, report_plan, report_repaired)
        finally:
            progress.close()
        report.show()
    return summary, plans, done


def _find_code(summary: RepairSummary) -> ExitCode:
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failed or summary.not_repairable:
        return ExitCode.PROBLEM
    return ExitCode.INCOMPLETE if summary.incomplete or summary.is_suspended else ExitCode.OK


def _print_plan(output: Output, plan: FilePlan, *, applies: bool) -> None:
    tell = output.say if plan.outcome in ("whole", "repairable") else output.tell
    for line in _describe(plan, output, applies=applies):
        tell(line)
    tell()


def _describe(plan: FilePlan, output: Output, *, applies: bool) -> Iterator[str]:
    heads = {
        "whole": ("intact: every block is as recorded; nothing to repair", "green"),
        "repairable": ("can be repaired", "green"),
        "no_good_copy": ("CAN'T be repaired", "red"),
        "unreachable": ("can't be repaired now", "yellow"),
        "refused": ("NOT repaired", "red"),
        "unreadable": ("can't be examined", "yellow"),
    }
    words, color = heads[plan.outcome.value]
    yield f"{show_path(absolute(plan.root, plan.path))}: {output.style(words, color)}"
    if plan.reason:
        yield f"  reason     {printable(plan.reason)}"
    if plan.outcome.value == "whole" and plan.kinds:
        yield f"  next       to close its finding:  integrity scrub {shell_path(absolute(plan.root, plan.path))}"
    expected = plan.expected
    if plan.outcome.value == "whole" or expected is None:
        return
    yield f"  damaged    {_describe_damage(plan, expected)}"
    for supply in plan.supplies:
        yield f"  source     {_blocks(supply.blocks, expected)}: intact in {printable(supply.copy)}"
    if plan.missing:
        yield f"  no source  {_blocks(plan.missing, expected)}: not intact in any copy"
    for copy, trouble in plan.troubles:
        yield f"  copy       {printable(copy)}: {printable(trouble)}"
    if plan.is_newer and plan.outcome.value == "repairable":
        path = shell_path(absolute(plan.root, plan.path))
        yield "  caution    it was written to since it was recorded, perhaps on purpose; to keep its content:"
        yield f"             integrity accept {path} --reason WHY"
    for other in plan.others:
        yield f"  also named {show_path(absolute(plan.root, other.path))}; all names are replaced together"
    if plan.outcome.value == "repairable":
        yield from _describe_apply(plan, applies=applies)


def _describe_damage(plan: FilePlan, expected: Expected) -> str:
    from integrity.config import format_size

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
    runs = list(_find_runs(blocks))
    shown = ", ".join(runs[:_RUNS_SHOWN]) + (", ..." if len(runs) > _RUNS_SHOWN else "")
    noun = "block" if len(blocks) == 1 else f"{len(blocks):,} blocks:"
    return f"{noun} {shown} of {expected.count:,}"


def _find_runs(blocks: tuple[int, ...]) -> Iterator[str]:
    """Yield the blocks as text, with consecutive ones joined: "3", "7-9"."""
    start = 0
    for index in range(1, len(blocks) + 1):
        if index == len(blocks) or blocks[index] != blocks[index - 1] + 1:
            first, last = blocks[start], blocks[index - 1]
            yield str(first) if first == last else f"{first}-{last}"
            start = index


def _describe_apply(plan: FilePlan, *, applies: bool) -> Iterator[str]:
    from integrity.cli.text import local_time

    record = plan.record
    assert record is not None
    verified = "" if record.verified_at is None else f", last verified {local_time(record.verified_at)}"
    recorded = f"the checksums recorded {local_time(record.recorded_at)}{verified}"
    if plan.supplies:
        yield f"  proof      the copy's data was read; it matches {recorded}"
    else:
        yield f"  proof      all blocks of the file match {recorded}; no copy is needed"
    if applies:
        return
    if plan.inspection is None:
        yield "  --apply    writes the whole file, verifies it from disk, then moves it into place;"
        whose = "owner of its folder" if plan.owner is None else "owner and group of its copy (which is not public)"
        yield f"             it gets the {whose} and its recorded modification time"
        for gone in plan.folders[:1]:
            yield f"             the missing folder {show_path(absolute(plan.root, gone.path))} is created again"
        return
    yield "  --apply    writes the repaired file beside this one, verifies it from disk, then swaps the two;"
    yield "             owner, mode, ACL, extended attributes, and times stay as they are;"
    from integrity.jobs.repair.targets import name_backup

    folder, _, name = plan.path.rpartition(b"/")
    kept = name_backup(name, "ID")
    path = absolute(plan.root, folder + b"/" + kept if folder else kept)
    yield f"             the damaged file is kept as {show_path(path)} (--discard deletes it)"


def _plan_object(plan: FilePlan) -> JsonObject:
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
        "damaged_blocks": list(plan.damaged) if expected is not None and plan.outcome.value != "unreadable" else [],
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


def _print_repaired(output: Output, done: RepairedFile) -> None:
    path = absolute(done.plan.root, done.plan.path)
    if done.is_repaired:
        output.say(f"{show_path(path)}: {output.style('repaired', 'green')}, and verified by reading it from disk")
        if done.kept is not None:
            output.say(f"  the damaged file is kept as {show_path(done.kept)}; delete it whenever you like")
        if done.message:
            output.tell(f"  {printable(done.message)}")
    else:
        output.tell(f"{show_path(path)}: {output.style('NOT repaired', 'red')}: {printable(done.message)}")


def _done_object(done: RepairedFile) -> JsonObject:
    kept: JsonObject = {"kept": None} if done.kept is None else path_fields("kept", done.kept)
    return {
        **path_fields("path", absolute(done.plan.root, done.plan.path)),
        **path_fields("root", done.plan.root),
        "is_repaired": done.is_repaired,
        **kept,
        "mends": [{"copy": supply.copy, "blocks": list(supply.blocks)} for supply in done.plan.supplies],
        "message": done.message,
    }


def _print_end(
    output: Output,
    summary: RepairSummary,
    files: tuple[bytes, ...],
    copies: tuple[str, ...],
    endpoint: str | None,
    *,
    applies: bool,
) -> None:
    from integrity.cli.text import count

    if not summary.plans and not summary.is_suspended and not summary.is_interrupted:
        output.say("nothing to repair: no file there has an open finding about its content")
        return
    repairable = summary.plans - summary.whole - summary.failed - summary.not_repairable - summary.incomplete
    parts = (
        (summary.repaired, "repaired"),
        (repairable - summary.repaired, "can be repaired"),
        (summary.whole, "intact"),
        (summary.failed, "FAILED"),
        (summary.not_repairable, "CAN'T be repaired"),
        (summary.incomplete, "could not be examined"),
    )
    said = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    if summary.is_interrupted:
        said += ", interrupted" if said else "interrupted"
    tell = output.say if _find_code(summary) is ExitCode.OK else output.tell
    tell(f"repair: {count(summary.plans, 'file')}: {said}" if said else f"repair: {count(summary.plans, 'file')}")
    if repairable and not applies:
        words = [shell_path(path) for path in files]
        words += [f"--from {shell_path(copy.encode('utf-8', 'surrogateescape'))}" for copy in copies]
        words += [f"--endpoint {endpoint}"] if endpoint else []
        output.say(f"This is only a plan; nothing was changed. To repair:  integrity repair {' '.join(words)} --apply")
