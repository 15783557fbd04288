"""
May a backup be made now? From what is open, and from what changed since the gate was last passed.

The catalog answers, after a scan has brought it up to date; only a few files are read. Findings speak for themselves.
What the gate alone notices becomes a finding as well, so that status and mails tell it; that finding ends when the
changes are gone, were accepted, or when a person releases the gate.

I1  Where the gate was last passed moves only when a backup may be made, or a person says so.
I2  Copies have no say: an old backup is no reason not to make a new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import candidates, findings, gate_passes, roots
from integrity.catalog.compiled_sql import snapshot
from integrity.catalog.findings import NewFinding
from integrity.catalog.gate_passes import Passed
from integrity.config import Config
from integrity.errors import CatalogError, ConfigError, show_path
from integrity.jobs import messages
from integrity.jobs.gate.changes import Changes, find_changes, find_hit_group
from integrity.jobs.gate.sample import look_into
from integrity.jobs.gate.signs import Sign, are_enough, find_signs
from integrity.jobs.open_root import Wave
from integrity.jobs.targets import Target, find_target, is_inside
from integrity.kinds import GATE_GAPS, INTEGRITY_PROBLEMS
from integrity.model import Finding, FindingId, FindingKind
from integrity.paths import absolute, shell_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.catalog.roots import RootRecord

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """
    Whether a part of a root may be backed up.

    Args:
        target: the part.
        since: where the gate was last passed, of the part or of a whole that it belongs to; None: never.
        present: where it stands now.
        rewritten: how many files have other content than then.
        removed: how many are gone.
        new: how many were not there.
        known_before: how many there were.
        looked_into: how many of them were read, a little of each.
        examples: paths, relative to the root, of some that changed.
        problems: open findings that say that something is wrong.
        gaps: open findings that say that something could not be looked at.
        signs: what the changes have in common.
        is_wave: more changed and went than is usual.
        hit_group: of which group of files that is so, and how many; None: of none.
        is_gone: the part as a whole is not there.
    """

    target: Target
    since: Passed | None
    present: Passed
    rewritten: int
    removed: int
    new: int
    known_before: int
    looked_into: int
    examples: tuple[bytes, ...]
    problems: tuple[Finding, ...]
    gaps: tuple[Finding, ...]
    signs: tuple[Sign, ...]
    is_wave: bool
    hit_group: str | None
    is_gone: bool

    @property
    def path(self) -> bytes:
        """Name the part, absolutely."""
        return absolute(self.target.root.path, self.target.prefix or None)

    @property
    def looks_like_ransomware(self) -> bool:
        """Say whether there are too many signs to be explained."""
        return are_enough(self.signs)

    @property
    def reason(self) -> str | None:
        """Say what the gate itself has against a backup; None: nothing. A mass change that is open says it already."""
        is_said = any(one.kind is FindingKind.MASS_CHANGE for one in self.problems)
        if self.looks_like_ransomware:
            return messages.ransomware(sign.message for sign in self.signs)
        if (self.is_wave or self.hit_group) and not is_said:
            hit = f"; {self.hit_group}" if self.hit_group else ""
            return (
                f"{self.rewritten} files were rewritten and {self.removed} are gone, of {self.known_before}{hit}: more"
                " than is usual between two backups"
            )
        return None

    @property
    def may_pass(self) -> bool:
        """Say whether nothing speaks against a backup."""
        return not self.problems and not self.gaps and not self.is_gone and self.reason is None


def judge(catalog: Catalog, config: Config, path: bytes, now: int) -> GateVerdict:
    """
    Say whether a part of a root may be backed up, as far as the catalog knows.

    Args:
        catalog: brought up to date by a scan.
        config: the whole of it.
        path: real.
        now: seconds UTC.

    Raises:
        ConfigError: the path lies in no root.
    """
    with catalog.read() as connection, snapshot(connection):
        target = find_target(connection, path)
        present = gate_passes.get_present(connection, now)
        since = _find_since(connection, target)
        found = find_changes(connection, target, since)
        settings = config.settings_for(target.root.path)
        hit_group = None if since is None else find_hit_group(connection, target.root.id, found, settings)
        open_ones = _find_open(connection, target)
    doubtful = {one.path for one in open_ones if one.kind is FindingKind.SILENT_REWRITE and one.path is not None}
    looks = look_into(target, found, doubtful)
    limits = {"most_files": settings.mass_change_files, "most_percent": settings.mass_change_percent}
    wave = Wave(found.rewritten_count, found.removed_count, found.known_before)
    return GateVerdict(
        target=target,
        since=since,
        present=present,
        rewritten=found.rewritten_count,
        removed=found.removed_count,
        new=0 if since is None else found.new_count,
        known_before=found.known_before,
        looked_into=looks.count,
        examples=_choose_examples(found),
        problems=tuple(one for one in open_ones if one.kind in INTEGRITY_PROBLEMS),
        gaps=tuple(one for one in open_ones if one.kind in GATE_GAPS),
        signs=tuple(find_signs(found, looks.changed, looks.arrivals, **limits)),
        is_wave=wave.is_mass_change(settings),
        hit_group=hit_group,
        is_gone=_is_gone(target),
    )


def find_vanished(catalog: Catalog, paths: Sequence[bytes]) -> list[bytes]:
    """
    Find the paths that were recorded once and are so no more, for they are gone: no scan can find anything there.

    Those are no slips of the pen, and a backup without them would be one that nobody wanted.
    """
    with catalog.read() as connection:
        known = roots.find_roots(connection)
        return [path for path in paths if _has_vanished(connection, known, path)]


def _has_vanished(connection: Connection, known: Sequence[RootRecord], path: bytes) -> bool:
    if not any(path.startswith(root.path.rstrip(b"/") + b"/") for root in known):
        return False
    target = find_target(connection, path)
    root_id, prefix = target.root.id, target.prefix
    if not _is_gone(target) or gate_passes.count_files(connection, root_id, prefix):
        return False
    return gate_passes.has_been_there(connection, root_id, prefix)


def _is_gone(target: Target) -> bool:
    """Say whether a part of a root is not there; of a root as a whole, its identity tells more."""
    return bool(target.prefix) and not os.path.lexists(absolute(target.root.path, target.prefix))


def decide(catalog: Catalog, verdicts: Sequence[GateVerdict], *, is_covered: bool, now: int) -> bool:
    """
    Let all through or none, and write down what the gate noticed.

    Args:
        catalog: open for writing.
        verdicts: of all that the one backup is about.
        is_covered: the scan looked at everything and met nothing.
        now: seconds UTC.

    Returns:
        Whether a backup may be made.
    """
    may_pass = is_covered and all(verdict.may_pass for verdict in verdicts)
    with catalog.transaction() as connection:
        for verdict in verdicts:
            target = verdict.target
            if not roots.has_root(connection, target.root.id):
                raise CatalogError(f"{show_path(target.root.path)}: was forgotten meanwhile; nothing is kept")
            if verdict.reason is not None:
                _close(connection, verdict, verdict.reason, now)
            elif not verdict.is_gone:
                _open(connection, target, "what spoke against a backup is gone, or was accepted", now)
            if may_pass:
                gate_passes.set_passed(connection, target.root.id, target.prefix, verdict.present)
    return may_pass


def release(catalog: Catalog, paths: Sequence[bytes], reason: str, now: int) -> None:
    """
    Take what changed so far as seen by a person: only what changes from now on is looked at.

    All are released or none. Findings that others opened stay: each has its own way to be settled.

    Raises:
        ConfigError: a path lies in no root, or its gate is not closed.
    """
    with catalog.transaction() as connection:
        for path in paths:
            target = find_target(connection, path)
            if not _open(connection, target, f"released: {reason}", now):
                raise ConfigError(_say_not_closed(connection, target))
            gate_passes.set_passed(connection, target.root.id, target.prefix, gate_passes.get_present(connection, now))


def find_closing(catalog: Catalog, target: Target) -> Finding | None:
    """Find what the gate itself has against a backup, as ``decide`` wrote it down."""
    with catalog.read() as connection:
        found = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix, copy="")
    return next((one for one in found if _is_own(target, one)), None)


def _find_since(connection: Connection, target: Target) -> Passed | None:
    """Tell where the part was last let through, by itself or, before that ever was, in a whole that it belongs to."""
    prefix = target.prefix
    while (passed := gate_passes.get_passed(connection, target.root.id, prefix)) is None and prefix:
        prefix = prefix.rpartition(b"/")[0]
    return passed


def _find_open(connection: Connection, target: Target) -> list[Finding]:
    """List the open findings that are about a part of a root, or about all of it; the gate's own are left out (I2)."""
    found = findings.find_findings(connection, root_id=target.root.id, copy="")
    about = (one for one in found if _is_about(connection, target, one) and not _is_own(target, one))
    return findings.as_incidents(connection, about)


def _is_about(connection: Connection, target: Target, finding: Finding) -> bool:
    if finding.path is not None:
        is_above = finding.kind is FindingKind.ROOT_SUSPENDED and is_inside(target.prefix, finding.path)
        return is_above or is_inside(finding.path, target.prefix)
    if finding.kind is FindingKind.MASS_CHANGE:
        return candidates.has_held(connection, target.root.id, target.prefix)
    return finding.kind is not FindingKind.SUSPICIOUS_CHANGE  # that of the whole root; this part is judged by itself


def _is_own(target: Target, finding: Finding) -> bool:
    return finding.kind is FindingKind.SUSPICIOUS_CHANGE and (finding.path or b"") == target.prefix


def _close(connection: Connection, verdict: GateVerdict, reason: str, now: int) -> None:
    new = NewFinding(
        FindingKind.SUSPICIOUS_CHANGE,
        verdict.target.root.id,
        None,
        verdict.target.prefix or None,
        f"{reason}. No backup is let through",
        step="look at what changed; when it is mended, ask again",
        command=f"integrity gate {shell_path(verdict.path)}",
    )
    findings.open_finding(connection, new, now=now, run_id=None)


def _open(connection: Connection, target: Target, resolution: str, now: int) -> list[Finding]:
    """End what the gate itself had against a backup, and return that."""
    found = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix, copy="")
    ids: list[FindingId] = [one.id for one in found if _is_own(target, one)]
    return findings.resolve_ids(connection, ids, resolution=resolution, now=now)


def _say_not_closed(connection: Connection, target: Target) -> str:
    path = absolute(target.root.path, target.prefix or None)
    closed = [
        shell_path(absolute(one.root, one.path))
        for one in findings.find_findings(connection, root_id=target.root.id, copy="")
        if one.kind is FindingKind.SUSPICIOUS_CHANGE
    ]
    beside = f"; that of {', '.join(closed)} is" if closed else "; what else is open: integrity findings"
    return f"{show_path(path)}: its gate is not closed by suspicious changes, so there is nothing to release{beside}"


def _choose_examples(changes: Changes) -> tuple[bytes, ...]:
    return tuple(sorted(changes.rewritten or changes.removed or changes.touched)[:EXAMPLES])
