"""
``integrity gate``.

The scan before the gate's verdict: by the daemon or here, and after others that work on the same folders.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from integrity.cli.console import ConsoleReport
from integrity.cli.daemon_client import DaemonClient, find_daemon, find_state, follow
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.output import JsonObject, Output, printable
from integrity.cli.params import DURATION, PATH
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.config import format_duration
from integrity.errors import CatalogError, CatalogLocked, CatalogMissing, show_path
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Note, NoteKind, Summary
from integrity.jobs.runner import make_context
from integrity.model import Finding, Job, Outcome
from integrity.paths import path_fields, shell_path
from integrity.service.control.requests import JobRequest, interrupted, nothing_done, run_request

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.gate.gate import GateVerdict
    from integrity.jobs.report import Stop


_FINDINGS_SHOWN = 5


@click.command()
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option("--release", is_flag=True, help="Take the changes that closed the gate as meant; needs --reason.")
@click.option("--reason", metavar="TEXT", help="Of --release: why; it is kept.")
@click.option(
    "--wait", "patience_s", type=DURATION, default="10m", show_default=True,
    help="How long to wait for another job that works on the folders.",
)  # fmt: skip
@click.pass_obj
def gate(session: Session, paths: tuple[bytes, ...], release: bool, reason: str | None, patience_s: int) -> int:
    """
    Say whether a backup may be made now: for a backup tool's pre-hook.

    Scans what changed, in seconds. Exits with 0 if nothing speaks against a backup, and with -q prints nothing then.
    Exits with 1 if it would carry damage (a finding is open), or if more changed since the gate was last passed than
    is usual, or in the way in which ransomware changes files; with 3 if something could not be looked at.

    A folder never seen before is recorded, and what is in it is the starting point. What closes the gate says how to
    open it: findings are settled as always; if the changes were meant:  integrity gate PATH --release --reason WHY
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
    from integrity.cli.json_objects import summary_object
    from integrity.cli.progress import open_progress
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.gate.gate import decide, judge

    with stop_on_signals() as stop:
        progress = open_progress(is_quiet=session.output.is_quiet)
        report = ScanReport(session.output, progress)
        try:
            summary = scan_first(session, _find_scannable(session, paths), report, stop, patience_s=patience_s)
        finally:
            progress.close()
        report.show()
    output = session.output
    if summary.outcome is Outcome.INTERRUPTED:
        output.tell("gate: interrupted; nothing is said of a backup")
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
    from integrity.cli.json_objects import finding_object
    from integrity.cli.text import describe_finding
    from integrity.jobs.gate.gate import find_closing

    found: dict[int, Finding] = {one.id: one for verdict in verdicts for one in (*verdict.problems, *verdict.gaps)}
    own = (find_closing(catalog, verdict.target) for verdict in verdicts)
    found |= {one.id: one for one in own if one is not None}
    for finding in found.values():
        output.give("finding", finding_object(finding))
    if output.is_json:
        return
    for finding in list(found.values())[-_FINDINGS_SHOWN:]:
        for line in describe_finding(finding, output):
            output.tell(line)
        output.tell()
    if len(found) > _FINDINGS_SHOWN:
        output.tell(f"and {len(found) - _FINDINGS_SHOWN:,} more; list them all with: integrity findings")
        output.tell()


def _tell(output: Output, verdict: GateVerdict, code: ExitCode, reasons: Sequence[str]) -> None:
    """Print the verdict on one PATH."""
    path = show_path(verdict.path)
    if code is ExitCode.OK:
        output.say(f"gate: {output.style('open', 'green')}: nothing speaks against a backup of {path}")
        for line in (_say_changes(verdict), *_say_signs(verdict)):
            output.say(f"  {line}")
        return
    word, color = ("CLOSED", "red") if code is ExitCode.PROBLEM else ("not open", "yellow")
    output.tell(f"gate: {output.style(word, color)}: no backup of {path}: {'; '.join(reasons)}")
    output.tell(f"  {_say_changes(verdict)}")
    if verdict.is_gone and not verdict.gaps:
        above = shell_path(os.path.dirname(verdict.path))
        output.tell("  - was it moved, or is its disk not mounted? When it is back, ask again")
        output.tell(f"  - if it is gone for good, ask for the folder that it was in:  integrity gate {above}")
    if verdict.reason is not None:
        for example in verdict.examples:
            output.tell(f"    {show_path(example)}")


def _say_reasons(verdict: GateVerdict, verdicts: Sequence[GateVerdict], *, is_covered: bool) -> Iterator[str]:
    """Name what speaks against a backup, in few words: the findings stand above."""
    from integrity.cli.text import count

    kinds = Counter(one.kind for one in (*verdict.problems, *verdict.gaps))
    if kinds:
        total = kinds.total()
        listed = ", ".join(f"{number:,} {kind.value}" for kind, number in sorted(kinds.items()))
        yield f"{count(total, 'finding')} open ({listed})"
    if verdict.looks_like_ransomware:
        yield "what changed looks like the work of ransomware"
    elif verdict.reason is not None:
        yield "more changed than is usual"
    if verdict.is_gone and not verdict.gaps:
        yield "it was recorded and is not there"
    elif not is_covered and (verdict.gaps or not any(map(_has_gap, verdicts))):
        yield "the scan could not look at everything"
    elif verdict.may_pass:
        yield "another folder that was asked for with it is not in order"


def _say_changes(verdict: GateVerdict) -> str:
    from integrity.cli.text import count, local_time

    if verdict.since is None:
        is_new = "for the first time: what is there now is the starting point"
        return is_new if verdict.may_pass else "it was never passed before"
    since = local_time(verdict.since.at)
    changes = f"{count(verdict.rewritten, 'file')} rewritten, {verdict.removed:,} gone, {verdict.new:,} new"
    return f"since {since}, when it was last passed: {changes}, of {verdict.known_before:,} before"


def _say_signs(verdict: GateVerdict) -> Iterator[str]:
    for sign in verdict.signs:
        yield f"noticed, and no reason to stop by itself: {printable(sign.message)}"


def _to_object(verdict: GateVerdict, code: ExitCode, reasons: Sequence[str]) -> JsonObject:
    from integrity.cli.json_objects import iso_time

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
    from integrity.cli.text import count
    from integrity.jobs.gate.gate import judge, release

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


_BETWEEN_S = 0.5  # between two tries of a folder that another job works on
_GLANCE_S = 5.0

_TOUCHED_BYTES = 256 << 20
"""
Read of files whose ctime alone moved: ransomware that puts the times back leaves no other trace, and neither does a
``chown -R``, which must not cost hours. Two seconds of a disk; what is left over is looked into by samples.
"""

_TOLD = frozenset({NoteKind.WARNING, NoteKind.UNSTABLE})


class ScanReport(ConsoleReport):
    """What the scan tells that the verdict will not: findings come with that, from the catalog."""

    def finding(self, finding: Finding) -> None:
        """Leave it to the verdict."""

    def note(self, note: Note) -> None:
        """Keep what explains a gap; the rest with ``-v`` only, for a hook's output is read by nobody."""
        if self._output.verbosity or note.kind in _TOLD:
            super().note(note)


class _ScanWait:
    """How long others have been waited for."""

    def __init__(self, session: Session, patience_s: int) -> None:
        self._session = session
        self._patience_s = patience_s
        self._until = time.monotonic() + patience_s
        self._look_at = time.monotonic()
        self._is_told = False

    @property
    def is_over(self) -> bool:
        """Say whether the patience is at its end."""
        return time.monotonic() >= self._until

    def tell(self, error: CatalogLocked) -> None:
        """Say once what is waited for."""
        if not self._is_told and not self._session.output.is_quiet:
            self._session.output.warn(f"{error}; the gate waits for it, {format_duration(self._patience_s)} at most")
        self._is_told = True

    def find_delay(self, paths: Sequence[bytes]) -> CatalogError | None:
        """Say that the daemon has not begun in time; it is asked what it does, for a job may tell nothing for long."""
        if not self.is_over or time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + _GLANCE_S
        state = find_state(self._session)
        mine = {b"", *paths}
        if state is None or not any(one.job == Job.SCAN.value and one.root in mine for one in state.queued):
            return None
        busy = ", ".join(f"a {one.job} of {show_path(one.root)}" for one in state.busy) or "other jobs"
        return CatalogLocked(
            f"the service (process {state.pid}) is still at {busy}, after {format_duration(self._patience_s)}; try"
            " again when that has ended, or say --wait DURATION"
        )


def scan_first(
    session: Session, paths: Sequence[bytes], report: ConsoleReport, stop: Stop, *, patience_s: int
) -> Summary:
    """
    Bring the catalog up to date.

    Args:
        session: of this call.
        paths: real ones.
        report: takes what the scan tells.
        stop: set by the user.
        patience_s: how long other jobs are waited for.

    Returns:
        What the scan covered: nothing, if there was nothing to look at, or the user had no more patience.

    Raises:
        CatalogLocked: another job was longer at it.
    """
    if not paths:
        nothing = nothing_done(Job.SCAN, int(time.time()))
        return replace(nothing, outcome=Outcome.INCOMPLETE, is_incomplete=True)
    waiting = _ScanWait(session, patience_s)
    while True:
        try:
            return _scan(session, paths, report, stop, lambda: waiting.find_delay(paths))
        except CatalogLocked as error:
            if stop.is_set():
                return interrupted(Job.SCAN, int(time.time()))
            if waiting.is_over:
                raise
            waiting.tell(error)
        stop.wait(_BETWEEN_S)


def _scan(
    session: Session,
    paths: Sequence[bytes],
    report: ConsoleReport,
    stop: Stop,
    find_delay: Callable[[], CatalogError | None],
) -> Summary:
    request = JobRequest(Job.SCAN, tuple(paths), scan=ScanOptions(touched_bytes=_TOUCHED_BYTES))
    daemon = find_daemon(session, paths)
    if daemon is not None:
        with daemon:
            _require_catalog(session, daemon)
            return follow(daemon, request, report, stop, output=session.output, find_delay=find_delay)
    with session.open_for_job(paths) as catalog:
        return run_request(make_context(catalog, session.config, report, jobs=None, stop=stop), request)


def _require_catalog(session: Session, daemon: DaemonClient) -> None:
    """Refuse a catalog that only the service may open: what it says, and where the gate was passed, stands there."""
    if daemon.catalog != os.path.realpath(session.catalog_path):
        raise CatalogError(
            f"{show_path(daemon.catalog)}: the service's catalog, which the gate reads and writes itself; run it as"
            " the backup is run: sudo integrity gate ..."
        )
