"""
Accept the current state as right, because a person says so (R6).

Files by name: each is re-read from the disk, and that becomes its baseline; a lost file is removed from the catalog.
Folders: changes or deletions that scans found and that await a decision are accepted as found. Of damaged files only
changes seen before the damage are accepted, and their findings stay open: nobody reviews each of five hundred files.
Former baselines stay in history.

I1  Nothing is accepted while a root is suspended: an unmounted disk would make every file "gone" (R5).
I2  A file's old and new baseline, findings and candidate change in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import files, findings, versions
from integrity.catalog.baselines import promote, remove_files, replace_baseline
from integrity.catalog.connection import write_in_pages
from integrity.catalog.own_checks import keep_own_check
from integrity.catalog.roots import RootRecord
from integrity.catalog.rows import FileRecord
from integrity.catalog.runs import Action, ensure_mounts, record_action
from integrity.catalog.versions import VersionState
from integrity.errors import ConfigError, ReadError, Vanished, show_path
from integrity.files.buffers import Buffers
from integrity.files.capability import find_capability
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.hashing.digests import FileHasher, have_equal_digests, is_very_sparse, want_to_record, without_chain
from integrity.jobs.judge.inodes import leads_to
from integrity.jobs.open_root import open_guarded
from integrity.jobs.presence import may_be_there
from integrity.jobs.repair_advice import renew_copy_advice
from integrity.jobs.targets import Target, find_target
from integrity.kinds import ACCEPTABLE, POSSIBLE_DAMAGE
from integrity.model import (
    ActionVerb,
    BaselineReason,
    FileId,
    Finding,
    FindingId,
    FindingKind,
    FindingState,
    Reading,
    RootId,
    Witness,
)
from integrity.paths import absolute
from integrity.words.findings import next_steps, title

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.catalog.versions import FileVersion
    from integrity.config import Config
    from integrity.jobs.context import Context

_STAYS = POSSIBLE_DAMAGE - {FindingKind.CATALOG_DAMAGED}
"""Findings that stay open when newer content is accepted as seen: the bytes may have been damaged since."""


class FileChange(StrEnum):
    """Kinds of candidate in a folder."""

    CHANGES = "changes"
    DELETIONS = "deletions"
    REWRITES = "rewrites"  # content that changed under its old time, of which there is a finding


class AcceptedAs(StrEnum):
    """Result for one file."""

    CONTENT = "content"  # its current content is the baseline
    REMOVAL = "removal"  # the file is gone, and its record was removed
    FAILED = "failed"  # the file could not be read; its baseline stays


@dataclass(frozen=True, slots=True)
class AcceptedFile:
    """Result for one file. ``message`` gives the reason of a failure."""

    path: bytes  # absolute
    outcome: AcceptedAs
    message: str = ""
    findings_resolved: int = 0
    other_names: tuple[bytes, ...] = ()  # absolute; hard links accepted with it


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """
    What accepting a folder's changes or deletions would accept.

    Args:
        changes: files whose newer content would become the baseline.
        deletions: files that would be removed from the catalog.
        rewrites: paths, in the root, of files whose content changed under its old time; each is read first.
        left_out: number of damaged files among them, which are accepted by name only.
        examples: paths of some, for review.
    """

    target: Target
    changes: tuple[FileId, ...]
    deletions: tuple[FileId, ...]
    rewrites: tuple[bytes, ...]
    left_out: int
    examples: tuple[bytes, ...]


def find_file_targets(catalog: Catalog, paths: Sequence[bytes]) -> list[Target]:
    """
    Find the files to accept by name.

    Raises:
        ConfigError: one is a folder or not recorded; nothing was done for any.
    """
    targets: list[Target] = []
    with catalog.read() as connection:
        for path in paths:
            target = find_target(connection, path)
            record = files.find_file(connection, target.root.id, target.prefix)
            if record is None and (not target.prefix or os.path.isdir(path)):
                raise ConfigError(
                    f"{show_path(path)}: is a folder; say what to accept of it: --changes, --deletions, --rewrites"
                )
            if record is None:
                raise ConfigError(
                    f"{show_path(path)}: is not recorded, so there is nothing to accept; record it with:"
                    f" {program.command('scan')}"
                )
            targets.append(target)
    return targets


def find_numbered(catalog: Catalog, numbers: Sequence[int], *, is_folder: bool = False) -> list[bytes]:
    """
    Return the absolute paths of the files that findings are about; ``is_folder``: those of folders.

    Raises:
        ConfigError: there is no such finding, it is closed, or it can't be accepted; the message says what to do.
    """
    with catalog.read() as connection:
        return [_find_place(connection, number, is_folder=is_folder) for number in numbers]


def _find_place(connection: Connection, number: int, *, is_folder: bool) -> bytes:
    one = findings.get_finding(connection, FindingId(number))
    place = absolute(one.root, one.path)
    if one.state is FindingState.RESOLVED:
        raise ConfigError(f"finding {number}: is closed already ({one.resolution}); there is nothing to accept")
    kinds = {FindingKind.MASS_CHANGE} if is_folder else ACCEPTABLE
    if one.kind not in kinds or one.copy is not None:
        steps = "; ".join(f"{step.words}: {step.command}" if step.command else step.words for step in next_steps(one))
        can = "can't be accepted" if steps else "can't be accepted; it ends by itself when its cause is gone"
        raise ConfigError(f"finding {number} ({title(one)}, {show_path(place)}): {can}{f': {steps}' if steps else ''}")
    return place


def identify_seen(record: FileRecord | None, candidate: FileVersion | None) -> str:
    """Return a token, in hex, of what a person sees of a file who may accept it: its record, and what was found."""
    recorded = None if record is None else (record.version, record.digests)
    found = None if candidate is None else (candidate.is_gone, candidate.witness, candidate.digests)
    return sha256(repr((recorded, found)).encode()).hexdigest()


def _is_as_seen(connection: Connection, record: FileRecord, target: Target, reading: Reading | None, seen: str) -> bool:
    """Return whether a file is what was seen of it: the same is known, and the same was read from the disk."""
    candidate = versions.get_candidate(connection, record.id)
    if seen != identify_seen(record, candidate):
        return False
    if reading is None:
        here = findings.find_findings_at(connection, target.root.id, target.prefix, copy="")
        is_known = candidate is not None and candidate.is_gone
        return is_known or any(one.kind is FindingKind.MISSING for one in here)
    if candidate is not None and not candidate.is_gone and not any(candidate.digests):
        return candidate.witness.stamps == reading.witness.stamps
    if candidate is not None and candidate.holds(reading):
        return True
    is_size_equal = record.witness.size_bytes == reading.witness.size_bytes
    return is_size_equal and have_equal_digests(record.digests, reading.digests)


def accept_file(context: Context, target: Target, reason: str, *, seen: str = "") -> AcceptedFile:
    """
    Read a file from the disk and accept its content, or its absence, as the baseline.

    Content is accepted for all names of the file in the root; an absence only for the given name. ``seen`` is the token
    of what was shown (``identify_seen``): something else is not accepted; empty: whatever is there.

    Raises:
        RootSuspended: its root is suspended (I1).
    """
    path = target.root.path.rstrip(b"/") + b"/" + target.prefix
    reading: Reading | None = None
    other_ids: list[FileId] = []
    with _open_root(target.root) as root_fd:
        try:
            reading = _read(context.config, target, root_fd)
            other_ids = _find_other_names(context.catalog, target, root_fd, reading.witness)
        except Vanished:
            pass  # its absence is accepted
        except ReadError as error:
            return AcceptedFile(path, AcceptedAs.FAILED, str(error))
    catalog = context.catalog
    with catalog.transaction() as connection:
        record = files.find_file(connection, target.root.id, target.prefix)
        if record is None:
            return AcceptedFile(path, AcceptedAs.FAILED, "is not recorded any more: a scan was faster")
        if seen and not _is_as_seen(connection, record, target, reading, seen):
            return AcceptedFile(
                path,
                AcceptedAs.FAILED,
                f"it is not what was shown any more; check it, then look at it again: {program.command('scrub', path)}",
            )
        if reading is None:
            resolved = _take_out(context, connection, target.root, [record.id], reason)
            _record(context, connection, target, reason, "it is gone, and so is its record", resolved)
            return AcceptedFile(path, AcceptedAs.REMOVAL, findings_resolved=len(resolved))
        others = files.find_files(connection, other_ids)
        taken = [_take_reading(context, connection, target.root, one, reading, reason) for one in (record, *others)]
        names, resolved = tuple(absolute(target.root.path, one.path) for one in others), set().union(*taken)
        _record(context, connection, target, reason, "its present content is the baseline", resolved)
        return AcceptedFile(path, AcceptedAs.CONTENT, findings_resolved=len(resolved), other_names=names)


def plan_folder(catalog: Catalog, path: bytes, wanted: frozenset[FileChange]) -> FolderPlan:
    """
    Find what accepting a folder's changes or deletions would accept.

    Raises:
        ConfigError: the path is in no root.
    """
    with catalog.read() as connection:
        target = find_target(connection, path)
        open_findings = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
        damaged = {one.path for one in open_findings if one.kind in POSSIBLE_DAMAGE}
        changes: dict[FileId, bytes] = {}
        deletions: dict[FileId, bytes] = {}
        for candidate in _find_candidates(connection, target):
            if candidate.state is VersionState.HELD and not candidate.is_gone:
                damaged.discard(candidate.path)  # the change was seen before the damage to it
            found = deletions if candidate.is_gone else changes
            found[candidate.file_id] = candidate.path
        for one in open_findings:  # in archives a missing file is a finding, not a candidate
            if one.kind is FindingKind.MISSING and one.path is not None:
                record = files.find_file(connection, target.root.id, one.path)
                if record is not None:
                    deletions[record.id] = record.path
    rewrites = _find_rewrites(open_findings) if FileChange.REWRITES in wanted else set()
    chosen = (changes if FileChange.CHANGES in wanted else {}) | (deletions if FileChange.DELETIONS in wanted else {})
    chosen = {file_id: path for file_id, path in chosen.items() if path not in rewrites}
    taken = {file_id: path for file_id, path in chosen.items() if path not in damaged}
    return FolderPlan(
        target=target,
        changes=tuple(file_id for file_id in taken if file_id in changes),
        deletions=tuple(file_id for file_id in taken if file_id in deletions),
        rewrites=tuple(sorted(rewrites)),
        left_out=len(chosen) - len(taken),
        examples=tuple(sorted({*taken.values(), *rewrites})[:10]),
    )


def _find_rewrites(open_findings: Sequence[Finding]) -> set[bytes]:
    """Return the files whose content changed under its old time, and about which nothing else is known."""
    own = [one for one in open_findings if one.copy is None and one.path is not None]
    others = {one.path for one in own if one.kind in POSSIBLE_DAMAGE and one.kind is not FindingKind.SILENT_REWRITE}
    return {one.path for one in own if one.kind is FindingKind.SILENT_REWRITE and one.path} - others


def plan_folders(catalog: Catalog, paths: Sequence[bytes], wanted: frozenset[FileChange]) -> list[FolderPlan]:
    """
    Find what accepting changes or deletions of folders would accept.

    Raises:
        ConfigError: a path is in no root, or nothing awaits a decision in any of them.
    """
    plans = [plan_folder(catalog, path, wanted) for path in paths]
    if not any(plan.changes or plan.deletions or plan.rewrites for plan in plans):
        damaged = sum(plan.left_out for plan in plans)
        beside = f" but {damaged:,} damaged files, which are accepted by name, or with --rewrites" if damaged else ""
        raise ConfigError(
            f"nothing waits for a decision there{beside}; see what is open with: {program.command('findings')}"
        )
    return plans


def accept_folder(context: Context, plan: FolderPlan, reason: str) -> tuple[int, int, int]:
    """
    Accept a plan, as far as it still holds. A file that reappeared since is not removed.

    Returns:
        Number of accepted changes, deletions and rewrites.

    Raises:
        RootSuspended: the root is suspended (I1).
    """
    changed = removed = 0
    done = [accept_file(context, Target(plan.target.root, path), reason) for path in plan.rewrites]
    rewritten = sum(one.outcome is AcceptedAs.CONTENT for one in done)
    with _open_root(plan.target.root) as root_fd:

        def take_changes(connection: Connection, page: Sequence[FileId]) -> None:
            nonlocal changed
            changed += sum(_take_candidate(context, connection, plan.target.root, one, reason) for one in page)

        def take_deletions(connection: Connection, page: Sequence[FileId]) -> None:
            nonlocal removed
            records = files.find_files(connection, page)
            gone = [record.id for record in records if not may_be_there(root_fd, record.path)]
            _take_out(context, connection, plan.target.root, gone, reason)
            removed += len(gone)

        write_in_pages(context.catalog.transaction, plan.changes, take_changes, monotonic=context.monotonic)
        write_in_pages(context.catalog.transaction, plan.deletions, take_deletions, monotonic=context.monotonic)
    with context.catalog.transaction() as connection:
        if not versions.has_held(connection, plan.target.root.id):
            findings.resolve_findings(
                connection,
                root_id=plan.target.root.id,
                kinds={FindingKind.MASS_CHANGE},
                resolution=f"accepted: {reason}",
                now=context.now(),
            )
        _record(context, connection, plan.target, reason, f"accepted {changed:,} changed and {removed:,} deleted files")
    return changed, removed, rewritten


def _record(
    context: Context,
    connection: Connection,
    target: Target,
    reason: str,
    outcome: str,
    resolved: Collection[FindingId] = (),
) -> None:
    done = Action(
        context.find_actor(),
        ActionVerb.ACCEPT,
        outcome,
        target.root.path,
        target.prefix,
        tuple(sorted(resolved)),
        reason,
    )
    record_action(connection, done, context.now())


@contextmanager
def _open_root(root: RootRecord) -> Iterator[int]:
    root_fd = open_guarded(root).fd
    try:
        yield root_fd
    finally:
        os.close(root_fd)


def read_file(config: Config, target: Target) -> Reading:
    """
    Read one file past the cache.

    Raises:
        RootSuspended: its root is suspended (I1).
        ReadError: it can't be read.
    """
    with _open_root(target.root) as root_fd:
        return _read(config, target, root_fd)


def _read(config: Config, target: Target, root_fd: int) -> Reading:
    """Read one file past the cache: the content on the disk is accepted."""
    settings = config.settings_for(target.root.path)
    reader = Reader(root_fd, find_capability(root_fd, target.root.path), mode=ReadMode.DISK)
    with Buffers() as buffers, reader.open(target.prefix) as file:
        want = want_to_record(blake3="blake3" in settings.digests)
        if is_very_sparse(file.size_bytes, file.size_bytes - file.stat.st_blocks * 512):
            want = without_chain(want)
        hasher = FileHasher(want, file.size_bytes, settings.block_size_bytes)
        for segment in file.segments(buffers):
            if want.needs_chain:
                hasher.chain(segment)
            hasher.cut_blocks(segment)
        witness = file.finish()
        digests = hasher.digests()
        _, blocks = hasher.take_blocks()
        return Reading(witness, digests, blocks, file.how, file.bytes_read)


def _find_other_names(catalog: Catalog, target: Target, root_fd: int, seen: Witness) -> list[FileId]:
    """Return the recorded names that lead to the file; none where inodes are not stable."""
    if not find_capability(root_fd, target.root.path).has_stable_inodes:
        return []
    with catalog.read() as connection:
        found = files.find_by_inode(connection, target.root.id, seen.inode)
    return [one.id for one in found if one.path != target.prefix and leads_to(root_fd, one.path, seen)]


def _take_reading(
    context: Context, connection: Connection, root: RootRecord, record: FileRecord, reading: Reading, reason: str
) -> set[FindingId]:
    now = context.now()
    replace_baseline(
        connection,
        root,
        record.id,
        reading,
        because=BaselineReason.ACCEPTED,
        now=now,
        boot_id=ensure_mounts(connection, context.boot_uuid, (), now),
        note=reason,
    )
    if have_equal_digests(record.digests, reading.digests):
        keep_own_check(connection, record)  # an owner accepts it once
    renew_copy_advice(connection, root.path, record.path, record.id, is_other_content=True)
    return _resolve(connection, root.id, record.path, reason, now)


def _take_out(
    context: Context, connection: Connection, root: RootRecord, ids: Sequence[FileId], reason: str
) -> set[FindingId]:
    now = context.now()
    resolved: set[FindingId] = set()
    for record in files.find_files(connection, ids):
        resolved |= _resolve(connection, root.id, record.path, reason, now)
    remove_files(connection, root, ids, because=BaselineReason.ACCEPTED, now=now)
    return resolved


def _take_candidate(context: Context, connection: Connection, root: RootRecord, file_id: FileId, reason: str) -> bool:
    """
    Promote a candidate; return False if it is gone, or was decided meanwhile.

    Damage found after it was held back concerns the candidate, and its findings stay open: nobody reviewed each file.
    """
    candidate = versions.get_candidate(connection, file_id)
    if candidate is None:
        return False
    now = context.now()
    is_promoted = promote(
        connection,
        root,
        candidate,
        because=BaselineReason.ACCEPTED,
        now=now,
        boot_id=ensure_mounts(connection, context.boot_uuid, (), now),
        note=reason,
    )
    if is_promoted:
        stays = _STAYS if candidate.state is VersionState.HELD else frozenset[FindingKind]()
        renew_copy_advice(connection, root.path, candidate.path, file_id, is_other_content=True)
        _resolve(connection, root.id, candidate.path, reason, now, without=stays)
    return is_promoted


def _resolve(
    connection: Connection,
    root_id: RootId,
    path: bytes,
    reason: str,
    now: int,
    without: frozenset[FindingKind] = frozenset(),
) -> set[FindingId]:
    """
    Resolve all findings about one path except some kinds; findings about its copies stay.

    Returns:
        The incidents of the resolved findings.
    """
    here = findings.find_findings_at(connection, root_id, path, copy="")
    ids: list[FindingId] = [one.id for one in here if one.kind not in without]
    findings.set_step(connection, [one.id for one in here if one.kind in without], None, None)
    ended = findings.resolve_ids(connection, ids, resolution=f"accepted: {reason}", now=now)
    return {one.incident_id for one in ended}


def _find_candidates(connection: Connection, target: Target) -> Iterator[FileVersion]:
    """Yield the candidates in or below the target that await a person's decision."""
    for state in (VersionState.HELD, VersionState.FROZEN):
        yield from versions.find_candidates(connection, target.root.id, state, target.prefix)
