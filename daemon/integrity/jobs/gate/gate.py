"""
Decide whether a backup may be made now, from open findings and from the changes since the gate was last passed.

The catalog answers, after a scan has updated it; only samples of files are read. Suspicious changes become a finding of
their own, so that status and mails report them. It is resolved when the changes are gone or accepted, or when a person
releases the gate.

I1  The point where the gate was last passed moves only when a backup may be made, or a person releases the gate.
I2  Findings about copies are ignored: an outdated backup is no reason against a new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import findings, gate_passes, roots, versions
from integrity.catalog.findings import NewFinding
from integrity.catalog.gate_passes import Passed
from integrity.config import Config
from integrity.errors import CatalogError, ConfigError, show_path
from integrity.jobs import messages
from integrity.jobs.gate.changes import find_changes, find_hit_group
from integrity.jobs.gate.sample import read_samples
from integrity.jobs.gate.signs import Sign, are_enough, find_signs
from integrity.jobs.open_root import ChangeCounts
from integrity.jobs.targets import Target, find_target, is_inside
from integrity.kinds import GATE_GAPS, GATE_PROBLEMS
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
        since: where the gate was last passed, for the part or a folder that contains it; None for never.
        present: the current position.
        rewritten: number of files with other content than at ``since``.
        removed: number of files that are gone.
        new: number of files that did not exist.
        known_before: number of files at ``since``.
        looked_into: number of files of which samples were read.
        examples: paths of some changed files, relative to the root.
        problems: open findings about damage.
        gaps: open findings about files that could not be checked.
        signs: signs of ransomware in the changes.
        is_wave: more files changed or went than usual.
        hit_group: description of a group of files that was hit; None if there is none.
        is_gone: the part as a whole does not exist.
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
        """Return the absolute path of the part."""
        return absolute(self.target.root.path, self.target.prefix or None)

    @property
    def looks_like_ransomware(self) -> bool:
        """Return whether there are too many signs for an innocent explanation."""
        return are_enough(self.signs)

    @property
    def reason(self) -> str | None:
        """Return the gate's own reason against a backup; None if there is none or a mass change finding gives it."""
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
        """Return whether it is safe to back up."""
        return not self.problems and not self.gaps and not self.is_gone and self.reason is None


def judge(catalog: Catalog, config: Config, path: bytes, now: int) -> GateVerdict:
    """
    Judge whether a part of a root may be backed up, from the catalog and samples of files.

    Args:
        catalog: updated by a scan.
        config: all of it.
        path: real path.
        now: seconds UTC.

    Raises:
        ConfigError: the path is in no root.
    """
    with catalog.read() as connection, connection.snapshot():
        target = find_target(connection, path)
        present = gate_passes.get_present(connection, now)
        since = _find_since(connection, target)
        found = find_changes(connection, target, since)
        settings = config.settings_for(target.root.path)
        hit_group = None if since is None else find_hit_group(connection, target.root.id, found, settings)
        open_ones = _find_open(connection, target)
    silently_rewritten = {
        one.path for one in open_ones if one.kind is FindingKind.SILENT_REWRITE and one.path is not None
    }
    looks = read_samples(target, found, silently_rewritten)
    limits = {"most_files": settings.mass_change_files, "most_percent": settings.mass_change_percent}
    wave = ChangeCounts(found.rewritten_count, found.removed_count, found.known_before)
    return GateVerdict(
        target=target,
        since=since,
        present=present,
        rewritten=found.rewritten_count,
        removed=found.removed_count,
        new=0 if since is None else found.new_count,
        known_before=found.known_before,
        looked_into=looks.count,
        examples=tuple(sorted(found.rewritten or found.removed or found.touched)[:EXAMPLES]),
        problems=tuple(one for one in open_ones if one.kind in GATE_PROBLEMS),
        gaps=tuple(one for one in open_ones if one.kind in GATE_GAPS),
        signs=tuple(find_signs(found, looks.changed, looks.arrivals, **limits)),
        is_wave=wave.is_mass_change(settings),
        hit_group=hit_group,
        is_gone=_is_gone(target),
    )


def find_vanished(catalog: Catalog, paths: Sequence[bytes]) -> list[bytes]:
    """
    Return the paths below roots that were recorded once and now exist neither on disk nor in the catalog.

    These are not typing errors, and nobody wants a backup without them.
    """
    with catalog.read() as connection:
        known = roots.find_roots(connection)
        return [path for path in paths if _has_vanished(connection, known, path)]


def _has_vanished(connection: Connection, known: Sequence[RootRecord], path: bytes) -> bool:
    if not any(path.startswith(root.path.rstrip(b"/") + b"/") for root in known):
        return False
    target = find_target(connection, path)
    root_id, prefix = target.root.id, target.prefix
    if not _is_gone(target) or roots.count_files(connection, root_id, prefix):
        return False
    return gate_passes.has_been_there(connection, root_id, prefix)


def _is_gone(target: Target) -> bool:
    """Return whether a part of a root does not exist; a whole root is checked by its identity instead."""
    return bool(target.prefix) and not os.path.lexists(absolute(target.root.path, target.prefix))


def decide(catalog: Catalog, verdicts: Sequence[GateVerdict], *, is_covered: bool, now: int) -> bool:
    """
    Pass all parts or none, and record suspicious changes as findings.

    Args:
        catalog: open for writing.
        verdicts: for all parts of one backup.
        is_covered: the scan covered everything without problems.
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
    Accept all changes so far: only later changes are considered.

    All paths are released or none. Findings of other jobs stay open; each is settled in its own way.

    Raises:
        ConfigError: a path is in no root, or its gate is not closed.
    """
    with catalog.transaction() as connection:
        for path in paths:
            target = find_target(connection, path)
            if not _open(connection, target, f"released: {reason}", now):
                raise ConfigError(_say_not_closed(connection, target))
            gate_passes.set_passed(connection, target.root.id, target.prefix, gate_passes.get_present(connection, now))


def find_closing(catalog: Catalog, target: Target) -> Finding | None:
    """Return the open finding that ``decide`` recorded for a target; None if there is none."""
    with catalog.read() as connection:
        found = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix, copy="")
    return next((one for one in found if _is_own(target, one)), None)


def _find_since(connection: Connection, target: Target) -> Passed | None:
    """Return where the part was last passed: by itself, else as part of the nearest folder above it."""
    prefix = target.prefix
    while (passed := gate_passes.get_passed(connection, target.root.id, prefix)) is None and prefix:
        prefix = prefix.rpartition(b"/")[0]
    return passed


def _find_open(connection: Connection, target: Target) -> list[Finding]:
    """Return the open findings about a part of a root or all of it, without those of copies (I2) and the gate's own."""
    found = findings.find_findings(connection, root_id=target.root.id, copy="")
    about = (one for one in found if _is_about(connection, target, one) and not _is_own(target, one))
    return findings.as_incidents(connection, about)


def _is_about(connection: Connection, target: Target, finding: Finding) -> bool:
    if finding.path is not None:
        is_above = finding.kind is FindingKind.ROOT_SUSPENDED and is_inside(target.prefix, finding.path)
        return is_above or is_inside(finding.path, target.prefix)
    if finding.kind is FindingKind.MASS_CHANGE:
        return versions.has_held(connection, target.root.id, target.prefix)
    return (
        finding.kind is not FindingKind.SUSPICIOUS_CHANGE
    )  # a gate finding about the whole root; this part is judged separately


def _is_own(target: Target, finding: Finding) -> bool:
    return finding.kind is FindingKind.SUSPICIOUS_CHANGE and (finding.path or b"") == target.prefix


def _close(connection: Connection, verdict: GateVerdict, reason: str, now: int) -> None:
    new = NewFinding(
        FindingKind.SUSPICIOUS_CHANGE,
        verdict.target.root.id,
        None,
        verdict.target.prefix or None,
        f"{reason}. Backups are blocked until you decide.",
        step="look at what changed; once it is fixed, check again",
        command=program.stored_command("gate", verdict.path),
    )
    findings.open_finding(connection, new, now=now, run_id=None)


def _open(connection: Connection, target: Target, resolution: str, now: int) -> list[Finding]:
    """Resolve the gate's own finding about a target, and return it."""
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
    beside = f"; that of {', '.join(closed)} is" if closed else f"; what else is open: {program.command('findings')}"
    return f"{show_path(path)}: its gate is not closed by suspicious changes, so there is nothing to release{beside}"
