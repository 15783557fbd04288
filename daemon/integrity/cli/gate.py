"""``integrity gate``."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.output import Output
from integrity.cli.params import DURATION, PATH, examples
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.errors import CatalogMissing, printable, show_path
from integrity.model import Finding, Outcome
from integrity.paths import path_fields
from integrity.words.text import JsonObject

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.gate.gate import GateVerdict
    from integrity.jobs.report import Summary


_FINDINGS_SHOWN = 5


@click.command(
    epilog=examples(
        ("integrity gate /srv/photos && restic backup /srv/photos", "back up only what is in order"),
        ("integrity gate /srv/photos --release --reason 'new tags'", "after a mass change that was meant"),
    )
)
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option("--release", is_flag=True, help="Confirm that the changes were meant; needs --reason.")
@click.option("--reason", metavar="TEXT", help="For --release: the reason, which is kept.")
@click.option(
    "--wait", "patience_s", type=DURATION, default="10m", show_default=True,
    help="How long to wait for another job on the same folders.",
)  # fmt: skip
@click.pass_obj
def gate(session: Session, paths: tuple[bytes, ...], release: bool, reason: str | None, patience_s: int) -> int:
    """
    Check whether it is safe to make a backup now (for backup hooks).

    Scans for changes, which takes seconds. Exits with 0 if it is safe to back up (with -q: silently), 1 if the
    backup would contain damage (an open finding), or if unusually many files changed since the last backup, or
    changed the way ransomware changes files; 3 if something could not be checked.

    A new folder is recorded, and its present content is the starting point. The output says what to do. If the
    changes were meant: integrity gate PATH --release --reason WHY
    """
    wanted = list(dict.fromkeys(real_path(path) for path in paths))
    if release:
        if reason is None or not reason.strip():
            raise click.UsageError("--release needs --reason TEXT: say why, so that it can be understood later")
        return _release(session, wanted, reason)
    if reason is not None:
        raise click.UsageError("--reason belongs to --release")
    return _ask(session, wanted, patience_s)


def _ask(session: Session, paths: Sequence[bytes], patience_s: int) -> ExitCode:
    from integrity.cli.console import reporting, stop_on_signals
    from integrity.cli.gate_scan import ScanReport, scan_first
    from integrity.jobs.gate.gate import decide, judge
    from integrity.views.runs import summary_object

    with stop_on_signals() as stop, reporting(session.output, ScanReport) as report:
        summary = scan_first(session, _find_scannable(session, paths), report, stop, patience_s=patience_s)
        report.show()
    output = session.output
    if summary.outcome is Outcome.INTERRUPTED:
        output.tell("gate: interrupted; it is not known whether a backup is safe")
        output.give("summary", summary_object(summary))
        return ExitCode.INTERRUPTED
    with session.open_catalog(writes=True) as catalog:
        now = int(time.time())
        verdicts = [judge(catalog, session.config, path, now) for path in paths]
        is_covered = code_for_summary(summary) is ExitCode.OK
        decide(catalog, verdicts, is_covered=is_covered, now=now)
        code = _find_code(verdicts, summary)
        _tell_findings(output, catalog, verdicts)
    for verdict in verdicts:
        reasons = tuple(_say_reasons(verdict, verdicts, is_covered=not summary.is_incomplete))
        _tell(output, verdict, code, reasons)
        output.give("gate", _to_object(verdict, code, reasons))
    output.give("summary", summary_object(summary))
    return code


def _find_scannable(session: Session, paths: Sequence[bytes]) -> list[bytes]:
    """Leave out what a scan would take for a slip of the pen, though it is known and gone."""
    from integrity.jobs.gate.gate import find_vanished

    missing = [path for path in paths if not os.path.lexists(path)]
    vanished: list[bytes] = []
    with suppress(CatalogMissing):  # nothing is known: the scan says what is wrong with a PATH
        if missing:
            with session.open_catalog(writes=True) as catalog:
                vanished = find_vanished(catalog, missing)
    return [path for path in paths if path not in vanished]


def _find_code(verdicts: Sequence[GateVerdict], summary: Summary) -> ExitCode:
    if any(verdict.problems or verdict.reason for verdict in verdicts):
        return ExitCode.PROBLEM
    code = code_for_summary(summary)
    return ExitCode.INCOMPLETE if code is ExitCode.OK and any(map(_has_gap, verdicts)) else code


def _has_gap(verdict: GateVerdict) -> bool:
    return bool(verdict.gaps) or verdict.is_gone


def _tell_findings(output: Output, catalog: Catalog, verdicts: Sequence[GateVerdict]) -> None:
    """Print what speaks against a backup, each finding once: the gate's own last, for it says most."""
    from integrity.jobs.gate.gate import find_closing
    from integrity.words.card import write_terminal
    from integrity.words.findings import finding_object, make_card

    found: dict[int, Finding] = {one.id: one for verdict in verdicts for one in (*verdict.problems, *verdict.gaps)}
    own = (find_closing(catalog, verdict.target) for verdict in verdicts)
    found |= {one.id: one for one in own if one is not None}
    for finding in found.values():
        output.give("finding", finding_object(finding))
    if output.is_json:
        return
    for finding in list(found.values())[-_FINDINGS_SHOWN:]:
        for line in write_terminal(make_card((finding,)), output):
            output.tell(line)
        output.tell()
    if len(found) > _FINDINGS_SHOWN:
        output.tell(f"and {len(found) - _FINDINGS_SHOWN:,} more; list them all with: {program.command('findings')}")
        output.tell()


def _tell(output: Output, verdict: GateVerdict, code: ExitCode, reasons: Sequence[str]) -> None:
    path = show_path(verdict.path)
    if code is ExitCode.OK:
        output.say(f"gate: {output.style('open', 'green')}: safe to back up {path}")
        output.say(f"  {_say_changes(verdict)}")
        for sign in verdict.signs:
            output.say(f"  suspicious, but not enough to block the backup: {printable(sign.message)}")
        return
    word, color = ("CLOSED", "red") if code is ExitCode.PROBLEM else ("not open", "yellow")
    output.tell(f"gate: {output.style(word, color)}: do not back up {path}: {'; '.join(reasons)}")
    output.tell(f"  {_say_changes(verdict)}")
    if verdict.is_gone and not verdict.gaps:
        above = os.path.dirname(verdict.path)
        output.tell("  - was it moved, or is its disk not mounted? When it is back, ask again")
        output.tell(f"  - if it is gone for good, ask for the folder that it was in:  {program.command('gate', above)}")
    if verdict.reason is not None:
        for example in verdict.examples:
            output.tell(f"    {show_path(example)}")


def _say_reasons(verdict: GateVerdict, verdicts: Sequence[GateVerdict], *, is_covered: bool) -> Iterator[str]:
    """Name what speaks against a backup, in few words: the findings stand above."""
    from integrity.words.findings import describe_kinds
    from integrity.words.text import count

    kinds = Counter(one.kind for one in (*verdict.problems, *verdict.gaps))
    if kinds:
        total = kinds.total()
        yield f"{count(total, 'finding')} open ({describe_kinds(kinds)})"
    if verdict.looks_like_ransomware:
        yield "the changes look like ransomware"
    elif verdict.reason is not None:
        yield "more files changed than usual"
    if verdict.is_gone and not verdict.gaps:
        yield "it is recorded, but not there"
    elif not is_covered and (verdict.gaps or not any(map(_has_gap, verdicts))):
        yield "the scan could not check everything"
    elif verdict.may_pass:
        yield "another of the given folders has a problem"


def _say_changes(verdict: GateVerdict) -> str:
    from integrity.words.text import count, local_time

    if verdict.since is None:
        is_new = "first check: the present content is the starting point"
        return is_new if verdict.may_pass else "no earlier check to compare with"
    since = local_time(verdict.since.at)
    changes = f"{count(verdict.rewritten, 'file')} rewritten, {verdict.removed:,} gone, {verdict.new:,} new"
    return f"since the last check ({since}): {changes}, of {verdict.known_before:,} files"


def _to_object(verdict: GateVerdict, code: ExitCode, reasons: Sequence[str]) -> JsonObject:
    from integrity.words.text import iso_time

    words = {ExitCode.OK: "open", ExitCode.PROBLEM: "closed"}
    return {
        **path_fields("path", verdict.path),
        **path_fields("root", verdict.target.root.path),
        "verdict": words.get(code, "incomplete"),
        "may_pass": verdict.may_pass,
        "is_first": verdict.since is None,
        "is_gone": verdict.is_gone,
        "since": None if verdict.since is None else iso_time(verdict.since.at),
        "files_known_before": verdict.known_before,
        "files_rewritten": verdict.rewritten,
        "files_removed": verdict.removed,
        "files_new": verdict.new,
        "files_looked_into": verdict.looked_into,
        "findings_open": len(verdict.problems) + len(verdict.gaps),
        "looks_like_ransomware": verdict.looks_like_ransomware,
        "signs": [{"kind": sign.kind.value, "message": sign.message} for sign in verdict.signs],
        "reasons": [] if code is ExitCode.OK else list(reasons),
    }


def _release(session: Session, paths: Sequence[bytes], reason: str) -> ExitCode:
    from integrity.cli.exitcodes import code_for_kinds
    from integrity.jobs.gate.gate import judge, release
    from integrity.words.text import count

    codes = []
    with session.open_catalog(writes=True) as catalog:
        now = int(time.time())
        release(catalog, paths, reason, now)
        for path in paths:
            verdict = judge(catalog, session.config, path, now)
            still = (*verdict.problems, *verdict.gaps)
            beside = f"; {count(len(still), 'other finding')} still keeps it closed" if still else ""
            session.output.say(f"{show_path(path)}: released{beside}")
            fields = {"verdict": "released", "findings_open": len(still)}
            session.output.give("gate", path_fields("path", path) | fields)
            codes.append(code_for_kinds(one.kind for one in still))
    return ExitCode.PROBLEM if ExitCode.PROBLEM in codes else max(codes)
