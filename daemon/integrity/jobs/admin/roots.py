"""Carry out what a person decides about a whole root: lift its suspension, move it, pause it (R5)."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import files, findings, versions
from integrity.catalog.baselines import mark_suspects
from integrity.catalog.connection import write_in_pages
from integrity.catalog.findings import NewFinding
from integrity.catalog.root_meta import save_move
from integrity.catalog.roots import (
    RootRecord,
    find_configured,
    find_roots,
    find_some_files,
    rebind_root,
    remove_unseen,
    set_configured,
    set_root_state,
)
from integrity.catalog.runs import Action, record_action
from integrity.catalog.versions import VersionState
from integrity.errors import ConfigError, show_path
from integrity.files.capability import identify
from integrity.files.open_beneath import open_root
from integrity.jobs import messages
from integrity.jobs.actor import find_user
from integrity.jobs.open_root import RELEASED
from integrity.jobs.presence import may_be_there
from integrity.jobs.repair_advice import advise_repair
from integrity.jobs.targets import find_target
from integrity.kinds import ENDED_BY_REBIND
from integrity.model import ActionVerb, Actor, FileId, FindingKind, RootIdentity, RootState

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection

TAKEN_OUT = "taken out of the configuration"
"""State reason of a root that is paused because the configuration no longer names it."""

_PAGE = 5000


def find_root(connection: Connection, path: bytes) -> RootRecord:
    """
    Return the root at a real path; a path inside a root is refused.

    Raises:
        ConfigError: no root is at this path.
    """
    target = find_target(connection, path)
    if target.prefix:
        raise ConfigError(f"{show_path(path)}: is a part of the root {show_path(target.root.path)}; name the root")
    return target.root


def release(
    catalog: Catalog, path: bytes, *, are_files_gone: bool = False, now: int, actor: Actor | None = None
) -> RootRecord:
    """
    Lift a suspension: the next run accepts whatever is at the root's path, and records its identity.

    No baseline is changed. What is there may be other storage, so changed files are judged as after a move.

    Args:
        are_files_gone: also if none of the recorded files is there, as on the mount point of an absent disk.

    Raises:
        ConfigError: the root is not suspended, its folder can't be opened, or it has none of the recorded files.
    """
    with catalog.read() as connection:
        root = find_root(connection, path)
        some = find_some_files(connection, root.id) if root.file_count > root.missing_count else []
    if root.state is not RootState.SUSPENDED:
        raise ConfigError(f"{show_path(path)}: is not suspended, there is nothing to release")
    _require_files(root, [] if are_files_gone else some)
    with catalog.transaction() as connection:
        set_root_state(connection, root.id, RootState.ACTIVE, RELEASED)
        save_move(connection, root, now)
        suspended = {FindingKind.ROOT_SUSPENDED}
        findings.resolve_findings(connection, root_id=root.id, kinds=suspended, resolution="released", now=now)
        _record(connection, actor, ActionVerb.RELEASE, "released", root.path, now)
    return root


def _require_files(root: RootRecord, some: Sequence[bytes]) -> None:
    """Raise unless the folder of a root can be opened, and has one of some recorded files; none: not asked."""
    steps = (
        f"mount its disk and go on: {program.command('scan', root.path)}; if the files are elsewhere now:"
        f" {program.command('root rebind', root.path)} NEW"
    )
    forget = program.command("forget", root.path)
    try:
        root_fd = open_root(root.path)
    except OSError as error:
        raise ConfigError(
            f"{show_path(root.path)}: can't be opened: {error.strerror}; {steps}; if it is lost for good: {forget}"
        ) from error
    try:
        if some and not any(may_be_there(root_fd, path) for path in some):
            raise ConfigError(
                f"{show_path(root.path)}: none of the recorded files that were looked for is there; {steps};"
                " if the files were deleted on purpose, add --files-gone"
            )
    finally:
        os.close(root_fd)


def follow_config(catalog: Catalog, configured: Collection[bytes]) -> None:
    """
    Pause roots that were removed from the configuration, and resume those that are back; none is forgotten.

    Roots that were created by commands and never configured are left alone. Roots that never existed on disk are
    removed once they are no longer configured.
    """
    with catalog.read() as connection:
        known, roots = find_configured(connection), find_roots(connection)
    if any(not root.was_seen and root.path not in configured for root in roots):
        with catalog.transaction() as connection:
            remove_unseen(connection, configured)
            known, roots = find_configured(connection), find_roots(connection)
    changed = [root for root in roots if (root.path in configured) is not (root.id in known)]
    if not changed:
        return
    with catalog.transaction() as connection:
        for root in changed:
            is_configured = root.path in configured
            set_configured(connection, root.id, is_configured=is_configured)
            if not is_configured and root.state is RootState.ACTIVE:
                set_root_state(connection, root.id, RootState.PAUSED, TAKEN_OUT)
            elif is_configured and root.state_reason == TAKEN_OUT:
                set_root_state(connection, root.id, RootState.ACTIVE, None)


def set_paused(catalog: Catalog, path: bytes, *, is_paused: bool, now: int, actor: Actor | None = None) -> RootRecord:
    """
    Pause a root, so that runs skip it, or resume it.

    Raises:
        ConfigError: it is paused (or not paused) already, or suspended.
    """
    with catalog.transaction() as connection:
        root = find_root(connection, path)
        if root.state is RootState.SUSPENDED:
            raise ConfigError(
                f"{show_path(path)}: is suspended, so nothing there is checked; once its disk is back:"
                f" {program.command('scan', path)}"
            )
        if is_paused is (root.state is RootState.PAUSED):
            raise ConfigError(f"{show_path(path)}: is {'paused already' if is_paused else 'not paused'}")
        if is_paused:
            set_root_state(connection, root.id, RootState.PAUSED, "paused by hand")
            _record(connection, actor, ActionVerb.PAUSE, "paused", root.path, now)
        else:
            set_root_state(connection, root.id, RootState.ACTIVE, None)
            _record(connection, actor, ActionVerb.RESUME, "resumed", root.path, now)
    return root


def _record(connection: Connection, actor: Actor | None, verb: ActionVerb, outcome: str, root: bytes, now: int) -> None:
    record_action(connection, Action(actor or find_user(), verb, outcome, root), now)


@dataclass(frozen=True, slots=True)
class Rebound:
    """
    A root that was moved.

    Args:
        root: before the move.
        missing: paths of the recorded files that do not exist at the new place, relative to the root.
    """

    root: RootRecord
    missing: tuple[bytes, ...]


def rebind(catalog: Catalog, old: bytes, new: bytes, *, now: int, actor: Actor | None = None) -> Rebound:
    """
    Move a root to another path or disk; its baselines stay and judge what is there.

    All of its files become suspects: a scrub reads them first. Missing files become findings, which stay open until the
    files are back or a person accepts their absence: no scan takes them for deletions. ``new`` is the real path of the
    folder with the files; it may be the old path with another disk.

    Raises:
        ConfigError: ``new`` is no folder, overlaps with another root, or contains none of the recorded files.
    """
    root_fd = _open_folder(new)
    try:
        identity = identify(root_fd, new)
        with catalog.read() as connection:
            root = find_root(connection, old)
            _refuse_overlap(connection, root, new)
        missing = _find_missing(catalog, root, root_fd, new)
    finally:
        os.close(root_fd)
    _move(catalog, root, new, identity, missing, now, actor or find_user())
    return Rebound(root, tuple(missing.values()))


def _open_folder(path: bytes) -> int:
    if not os.path.isdir(path):
        raise ConfigError(f"{show_path(path)}: there is no such folder; mount the new disk first")
    try:
        return open_root(path)
    except OSError as error:
        raise ConfigError(f"{show_path(path)}: can't be opened: {error.strerror}") from error


def _refuse_overlap(connection: Connection, root: RootRecord, new: bytes) -> None:
    """Raise if the new path overlaps with another root: no file may belong to two roots."""
    inner = new.rstrip(b"/") + b"/"
    for other in find_roots(connection):
        outer = other.path.rstrip(b"/") + b"/"
        if other.id != root.id and (inner.startswith(outer) or outer.startswith(inner)):
            raise ConfigError(
                f"{show_path(new)}: overlaps with the root {show_path(other.path)}, recorded by itself; if these"
                f" are the same files, forget it, then rebind: {program.command('forget', other.path)}"
            )


def _pages(catalog: Catalog, root: RootRecord) -> Iterator[list[tuple[FileId, bytes, int]]]:
    after = 0
    while True:
        with catalog.read() as connection:
            page = files.page_files(connection, root.id, after=after, limit=_PAGE)
        if not page:
            return
        yield page
        after = page[-1][0]


def _find_missing(catalog: Catalog, root: RootRecord, root_fd: int, new: bytes) -> dict[FileId, bytes]:
    """
    Return the recorded files that are not below an open folder.

    Raises:
        ConfigError: all are missing. It is another folder: a typing error must not declare every file missing.
    """
    missing, is_any_there = dict[FileId, bytes](), False
    for page in _pages(catalog, root):
        gone = {file_id: path for file_id, path, _ in page if not may_be_there(root_fd, path)}
        missing |= gone
        is_any_there |= len(gone) < len(page)
    if missing and not is_any_there:
        raise ConfigError(
            f"{show_path(new)}: holds none of the {len(missing):,} files recorded of {show_path(root.path)}: this is"
            " another folder; check the path, or copy the files first"
        )
    return missing


def _move(
    catalog: Catalog,
    root: RootRecord,
    new: bytes,
    identity: RootIdentity,
    missing: dict[FileId, bytes],
    now: int,
    actor: Actor,
) -> None:
    """
    Move a root, after writing everything that must be in place by then.

    Until then it stays at its former place: after a kill run this again, or a scan finds the files at the old place.
    """
    for page in _pages(catalog, root):
        ids = [file_id for file_id, _, _ in page]
        write_in_pages(catalog.transaction, ids, lambda c, some: mark_suspects(c, dict.fromkeys(some)))

    def open_missing(connection: Connection, ids: Sequence[FileId]) -> None:
        for one in files.find_files(connection, ids):
            advice = advise_repair(connection, root.id, new, one.path, one.id, FindingKind.MISSING) or (None, None)
            lost = NewFinding(FindingKind.MISSING, root.id, one.id, one.path, messages.MISSING_HERE)
            lost = lost._replace(step=advice[0], command=advice[1])
            findings.open_finding(connection, lost, now=now, run_id=None)

    while True:
        unreported, held = _find_unreported(catalog, root, missing), _find_held(catalog, root)
        if not (unreported or held) and _is_moved(catalog, root, new, identity, missing, now, actor):
            return
        write_in_pages(catalog.transaction, unreported, open_missing)
        # Held candidates were seen at the old place; the next scan looks at the new one.
        write_in_pages(catalog.transaction, held, versions.discard)


def _find_unreported(catalog: Catalog, root: RootRecord, missing: Iterable[FileId]) -> list[FileId]:
    """Return the missing files that are recorded and have no finding yet."""
    with catalog.read() as connection:
        reported = findings.find_files_with(connection, root.id, FindingKind.MISSING)
        return [one.id for one in files.find_files(connection, set(missing) - reported)]


def _find_held(catalog: Catalog, root: RootRecord) -> list[FileId]:
    with catalog.read() as connection:
        return [one.file_id for one in versions.find_candidates(connection, root.id, VersionState.HELD)]


def _is_moved(
    catalog: Catalog,
    root: RootRecord,
    new: bytes,
    identity: RootIdentity,
    missing: Collection[FileId],
    now: int,
    actor: Actor,
) -> bool:
    """Move a root unless a scan of the old place undid the preparations; return whether it was moved."""
    with catalog.transaction() as connection:
        if _find_unreported(catalog, root, missing) or _find_held(catalog, root):
            return False
        rebind_root(connection, root.id, new, identity)
        save_move(connection, root, now)
        set_root_state(connection, root.id, RootState.ACTIVE, None)
        findings.resolve_findings(connection, root_id=root.id, kinds=ENDED_BY_REBIND, resolution="rebound", now=now)
        outcome = f"rebound from {show_path(root.path)}; recorded files missing at the new place: {len(missing):,}"
        _record(connection, actor, ActionVerb.REBIND, outcome, new, now)
    return True
