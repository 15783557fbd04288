"""``integrity repair``, and the damaged files that repairs left (``--kept``, ``--remove-kept``)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Output, confirm
from integrity.cli.params import PATH, examples
from integrity.cli.running import at_files, job_context, own_path
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields, shell_word
from integrity.units import format_duration, format_size
from integrity.views.repair import make_plan_card, repaired_object
from integrity.views.runs import summary_object
from integrity.words.card import write_terminal
from integrity.words.text import count, iso_time, list_counts

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.repair.apply import RepairedFile
    from integrity.jobs.repair.kept import KeptReport
    from integrity.jobs.repair.plan import FilePlan
    from integrity.jobs.repair.run import RepairOptions, RepairSummary
    from integrity.words.card import Card


@click.command(
    epilog=examples(
        ("integrity repair /srv/photos/a.jpg", "show how it can be repaired, and change nothing"),
        ("integrity repair /srv/photos --from nightly --apply", "repair all damaged files in a folder"),
        ("integrity repair --kept", "list the damaged files that repairs left; --remove-kept"),
    )
)
@click.argument("files", nargs=-1, type=PATH, metavar="FILE...")
@click.option("--from", "copies", multiple=True, metavar="COPY", help="Take blocks from this copy; may be repeated.")
@click.option("--apply", "applies", is_flag=True, help="Carry out the plan instead of only printing it.")
@click.option(
    "--copy-is-right", is_flag=True,
    help="What the copy has is right, whatever was recorded; your file is kept beside it.",
)  # fmt: skip
@click.option("--discard", "discards", is_flag=True, help="Delete the damaged file after the repair is verified.")
@click.option("--kept", "lists_kept", is_flag=True, help="List the damaged files that repairs left.")
@click.option("--remove-kept", "removes_kept", is_flag=True, help="Remove them, after verifying the repaired files.")
@click.option("--yes", is_flag=True, help="With --remove-kept: don't ask for confirmation.")
@click.option("--endpoint", metavar="URL", help="URL of an S3 server other than Amazon's.")
@click.pass_obj
def repair(
    session: Session,
    files: tuple[bytes, ...],
    copies: tuple[str, ...],
    applies: bool,
    copy_is_right: bool,
    discards: bool,
    lists_kept: bool,
    removes_kept: bool,
    yes: bool,
    endpoint: str | None,
) -> int:
    """
    Repair damaged files from a backup.

    Prints a plan: which blocks are damaged, which copy has them intact, and the proof. With --apply, the repaired
    file is built beside the damaged one, verified as a whole, and exchanged with it; the damaged file is kept
    under a name that is printed. FILE may be a folder: all files below it with an open finding. COPY is a name
    from the configuration, a path, or a URL; without --from, all known copies are tried, and blocks may come from
    several of them.

    Where file and copy differ and which one is right is not known, --copy-is-right decides for the copy: the file
    gets what the copy has, and is kept under the name that is printed until you remove it (--remove-kept). The
    opposite: accept FILE --with COPY.

    Exits with 0 if everything can be or was repaired, 1 if something can't be, 3 if a needed copy could not be
    reached.
    """
    if lists_kept or removes_kept:
        if copies or applies or copy_is_right or discards or endpoint or (lists_kept and removes_kept):
            raise click.UsageError("--kept and --remove-kept go with no other option: they repair nothing")

        with at_files(session, files, writes=removes_kept) as there:
            return list_kept_files(there, files) if lists_kept else remove_kept_files(there, files, is_yes=yes)
    if not files:
        raise click.UsageError("name the damaged files, or their folder, as `findings` lists them")
    if discards and not applies:
        raise click.UsageError("--discard deletes the damaged file after the repair, so it needs --apply")
    if copy_is_right and (len(copies) != 1 or discards or any(os.path.isdir(file) for file in files)):
        raise click.UsageError(
            "--copy-is-right needs files, no folder, and exactly one --from; what it replaces is kept, so no --discard"
        )
    from integrity.jobs.repair.run import RepairOptions

    options = RepairOptions(applies=applies, discards=discards, is_copy_right=copy_is_right)
    with at_files(session, files, writes=applies) as there:
        summary = _run(there, files, copies, endpoint, options)
    _print_end(session.output, summary, files, copies, endpoint, applies=applies, copy_is_right=copy_is_right)
    return _find_code(summary)


def _run(
    session: Session, files: tuple[bytes, ...], copies: tuple[str, ...], endpoint: str | None, options: RepairOptions
) -> RepairSummary:
    """Plan, and repair if the options ask for it; print the plans, then what was repaired, then what came of that."""
    from integrity.cli.daemon_client import borrowing
    from integrity.jobs.repair.targets import find_wanted
    from integrity.jobs.runner import repair

    output = session.output
    plans: list[tuple[FilePlan, Card]] = []
    done: list[RepairedFile] = []

    def report_plan(plan: FilePlan) -> None:
        card = make_plan_card(plan, output, applies=options.applies)
        output.give("repair_plan", card.facts)
        plans.append((plan, card))

    def report_repaired(one: RepairedFile) -> None:
        output.give("repair", repaired_object(one))
        done.append(one)

    with job_context(session, session.open_catalog(writes=True)) as (context, report):
        wanted = find_wanted(context.catalog, session.config, files, copies, endpoint)
        with borrowing(session, list(dict.fromkeys(one.target.root.path for one in wanted)), context):
            summary = repair(context, wanted, options, report_plan, report_repaired)
    for plan, card in plans:
        tell = output.say if plan.outcome in ("whole", "repairable") else output.tell
        for line in (*write_terminal(card, output), ""):
            tell(line)
    for one in done:
        _print_repaired(output, one)
    report.show()
    for run in summary.runs:
        output.give("summary", summary_object(run))
    return summary


def _find_code(summary: RepairSummary) -> ExitCode:
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failed or summary.not_repairable or summary.refused:
        return ExitCode.PROBLEM
    return ExitCode.INCOMPLETE if summary.incomplete or summary.is_suspended else ExitCode.OK


def _print_repaired(output: Output, done: RepairedFile) -> None:
    path = absolute(done.plan.root, done.plan.path)
    if done.is_repaired:
        output.say(f"{show_path(path)}: {output.style('repaired', 'green')}, and verified by reading it from disk")
        if done.kept is not None:
            remove = program.command("repair --remove-kept", path)
            if done.plan.is_decided:
                what, when = "the file that was here", "once a comparison found the new one intact, this removes it"
            else:
                what, when = "the damaged file", "to remove it"
            output.say(f"  {what} is kept as {show_path(done.kept)}; {when}:  {remove}")
        if done.message:
            output.tell(f"  {printable(done.message)}")
    else:
        output.tell(f"{show_path(path)}: {output.style('NOT repaired', 'red')}: {printable(done.message)}")


def _print_end(
    output: Output,
    summary: RepairSummary,
    files: tuple[bytes, ...],
    copies: tuple[str, ...],
    endpoint: str | None,
    *,
    applies: bool,
    copy_is_right: bool,
) -> None:
    if not summary.plans and not summary.is_suspended and not summary.is_interrupted:
        output.say("nothing to repair: no file there has an open finding about its content")
        return
    others = summary.whole + summary.failed + summary.not_repairable + summary.refused + summary.incomplete
    repairable = summary.plans - others
    parts = (
        (summary.repaired, "repaired"),
        (repairable - summary.repaired, "can be repaired"),
        (summary.whole, "intact"),
        (summary.failed, "FAILED"),
        (summary.not_repairable, "CAN'T be repaired"),
        (summary.refused, "left as said above"),
        (summary.incomplete, "could not be examined"),
    )
    said = list_counts(parts)
    if summary.is_interrupted:
        said += ", interrupted" if said else "interrupted"
    tell = output.say if _find_code(summary) is ExitCode.OK else output.tell
    tell(f"repair: {count(summary.plans, 'file')}: {said}" if said else f"repair: {count(summary.plans, 'file')}")
    if repairable and not applies:
        words = [f"--from {shell_word(copy)}" for copy in copies]
        words += [f"--endpoint {shell_word(endpoint)}"] if endpoint else []
        words += ["--copy-is-right"] if copy_is_right else []
        command = program.command("repair", *files, *words, "--apply")
        output.say(f"This is only a plan; nothing was changed. To repair:  {command}")


def list_kept_files(session: Session, paths: Sequence[bytes]) -> ExitCode:
    with session.open_catalog(writes=False) as catalog:
        from integrity.jobs.repair.kept import list_kept

        found = list_kept(catalog, [own_path(path) for path in paths])
    _print_all(session, found)
    if not found:
        session.output.say("no repair left a damaged file")
        return ExitCode.OK
    size = sum(one.kept.stamps[0] for one in found)
    remove = program.command("repair --remove-kept", *paths)
    session.output.say(f"{count(len(found), 'damaged file')} kept ({format_size(size)}); to remove:  {remove}")
    return ExitCode.OK


def remove_kept_files(session: Session, paths: Sequence[bytes], *, is_yes: bool) -> ExitCode:
    """Remove the files that repairs left, each after the repaired file was verified."""
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.repair.kept import KeptState, list_kept

        found = list_kept(catalog, [own_path(path) for path in paths])
        if not found:
            session.output.say("no repair left a damaged file")
            return ExitCode.OK
        if not (is_yes or session.output.is_json):
            _print_all(session, found)
        confirm(f"Remove {count(len(found), 'damaged file')} after verifying the repaired ones?", is_yes=is_yes)
        done, is_interrupted = _remove(session, catalog, found)
    _print_all(session, done)
    if is_interrupted:
        return ExitCode.INTERRUPTED
    is_done = len(done) == len(found) and all(one.state in (KeptState.REMOVED, KeptState.GONE) for one in done)
    return ExitCode.OK if is_done else ExitCode.INCOMPLETE


def _remove(session: Session, catalog: Catalog, found: Sequence[KeptReport]) -> tuple[list[KeptReport], bool]:
    from integrity.cli.console import ConsoleReport, NoProgress, stop_on_signals
    from integrity.cli.daemon_client import borrowing
    from integrity.jobs.runner import make_context, remove_kept

    with stop_on_signals() as stop:
        report = ConsoleReport(session.output, NoProgress())
        context = make_context(catalog, session.config, report, jobs=None, stop=stop)
        with borrowing(session, [one.root.path for one in found], context):
            done = remove_kept(context, found)
        report.show()
        return done, stop.is_set()


def _print_all(session: Session, found: Sequence[KeptReport]) -> None:
    output, now = session.output, int(time.time())
    for one in found:
        age = f"{format_size(one.kept.stamps[0])}, {format_duration(max(0, now - one.kept.kept_at))} old"
        state = f"{one.state.value.replace('_', ' ')}{f': {printable(one.reason)}' if one.reason else ''}"
        output.tell(f"{show_path(one.path)}: {state}  ({age})")
        repaired = absolute(one.root.path, one.kept.place.path)
        fields = {"state": one.state.value, "reason": one.reason, "size_bytes": one.kept.stamps[0]}
        times = {"kept_at": iso_time(one.kept.kept_at)}
        output.give("kept_file", path_fields("path", one.path) | path_fields("repaired", repaired) | fields | times)
