"""
Which record an opened copy has: it is known by its name, its place and its disk (R5).

Disks that take turns at one place are copies of their own, each with a name that says which disk it is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_64_hexdigest

from integrity.catalog import copies, findings
from integrity.catalog.copies import CopyRecord
from integrity.copies.protocol import Copy, LocalFolder
from integrity.errors import ConfigError
from integrity.files.open_beneath import stat_beneath
from integrity.jobs.compare.source import CopySource, is_same_place
from integrity.jobs.options import CompareOptions
from integrity.jobs.report import NoteKind
from integrity.model import FileId, FindingId, FindingKind
from integrity.same_place import get_fs_name, is_same_disk, recognise, spell_folder

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class KnownCopy(NamedTuple):
    """
    What is recorded of a copy that was opened.

    Attributes:
        record: of this disk, at this place; None: this disk was never compared.
        others: records of other disks that take turns with it.
    """

    record: CopyRecord | None
    others: tuple[CopyRecord, ...]


def refuse_unfit(run: RootRun, copy: Copy, base: bytes, options: CompareOptions) -> None:
    """Refuse options that do not fit this copy, and a copy that is the folder itself."""
    wants_bytes = options.read or options.read_percent is not None
    if wants_bytes and not (copy.has_bytes or copy.remote_kinds):
        raise ConfigError(f"{copy.shown}: has digests only, there are no bytes to be read; leave --read out")
    if options.cached and copy.folder is None:
        raise ConfigError(f"{copy.shown}: is no folder on this machine; leave --cached out")
    if copy.reads_all_at_once and options.read_percent not in (None, 100):
        raise ConfigError(
            f"{copy.shown}: is read as a whole or not at all: give --read, or set read_percent of the [[copy]]"
            " to 100 or 0"
        )
    identity = copy.identity()
    if copy.folder is not None and _is_same_folder(run, copy.folder, base):
        raise ConfigError(f"{copy.shown}: is the folder itself, under another name; a copy is somewhere else")
    if identity is not None and is_same_disk(run.root.identity.fs_id, identity.names):
        text = f"the copy {copy.shown} lies on the same file system: what takes one, takes both"
        run.note(NoteKind.WARNING, None, text)


def _is_same_folder(run: RootRun, folder: LocalFolder, base: bytes) -> bool:
    try:
        own = stat_beneath(run.root_fd, base) if base else os.fstat(run.root_fd)
    except OSError:
        return False  # the folder is gone: its copy is what is left
    return os.path.samestat(own, os.fstat(folder.root_fd))


def find_known(run: RootRun, source: CopySource, copy: Copy, base: bytes) -> KnownCopy:
    """Find the record of a copy, by its name or else by its place, and by its disk (R5)."""
    with run.catalog.read() as connection:
        known = [one for one in copies.find_copies(connection, run.root.id) if one.prefix == base]
    named = [one for one in known if one.base_name == source.name]
    known = named or [one for one in known if is_same_place(one.url, copy.url)]
    identity = copy.identity()
    if identity is None:
        return KnownCopy(next(iter(known), None), ())
    seen = [one for one in known if one.identity is not None]
    same = [one for one in seen if recognise(get_fs_name(one.identity or ""), identity.names) is not None]
    record = next(iter(same or [one for one in known if one.identity is None]), None)
    return KnownCopy(record, tuple(one for one in seen if one is not record))


def remember(run: RootRun, source: CopySource, copy: Copy, base: bytes, known: KnownCopy) -> CopyRecord:
    """
    Record the copy; a disk that takes turns with others at one place is a copy of its own.

    A copy that was recorded under its path and now has a name is renamed.
    """
    url, identity, record = copy.url, copy.identity(), known.record
    with run.catalog.read() as connection:
        recorded = [one for one in copies.find_copies(connection, run.root.id) if one.prefix == base]
    for one in recorded:
        if source.is_configured and one.base_name != source.name and is_same_place(one.url, url):
            name = _name_disk(source.name, one.disk)
            _rename(run, one, name, is_taken=any(other.name == name for other in recorded))
    disk = record.disk if record is not None else None
    if record is None and known.others and identity is not None:
        disk = _label_disk(identity.names[0], {one.disk for one in recorded})
    spelled = None
    if identity is not None:
        recorded_name = None if record is None or record.identity is None else get_fs_name(record.identity)
        surest = recorded_name and recognise(recorded_name, identity.names)
        spelled = spell_folder((surest or identity.names[0],), identity.folder_inode)
    is_kept = record is not None and identity is not None
    with run.writing() as connection:
        return copies.ensure_copy(
            *(connection, run.root.id, base, _name_disk(source.name, disk), url, spelled),
            now=run.now(),
            has_bytes=copy.has_bytes,
            disk=disk,
            keeps_answers=is_kept,
        )


def _name_disk(name: str, disk: str | None) -> str:
    return name if disk is None else f"{name} ({disk})"


def _label_disk(fs_name: str, taken: Collection[str | None]) -> str:
    """Return what tells a disk from others: how its UUID begins, as ``lsblk -f`` prints it, unless a clone has that."""
    kind, _, rest = fs_name.partition(":")
    digest = xxh3_64_hexdigest(fs_name.encode())
    label = f"disk {rest[:8] if kind == 'uuid' else digest[:8]}"
    return label if label not in taken else f"{label}-{digest[:4]}"


def _rename(run: RootRun, record: CopyRecord, name: str, *, is_taken: bool) -> None:
    """Rename a copy. Its own row is renamed last, so that the next run finishes the job after a kill."""
    with run.catalog.read() as connection:
        about = findings.find_unresolved(connection, run.root.id, copy=record.name)

    def rename(connection: Connection, ids: Sequence[FindingId]) -> None:
        findings.rename_copy(connection, ids, name, run.now())

    run.write_in_pages(about, rename)
    if is_taken:
        drop_states(run, record)
    with run.writing() as connection:
        copies.rename_copy(connection, record, name)


def drop_states(run: RootRun, record: CopyRecord, *, are_gone: bool = False) -> None:
    """Remove a copy's file states; with ``are_gone`` only those of files that left the catalog."""
    with run.catalog.read() as connection:
        compared = copies.find_compared(connection, record.id, are_gone=are_gone)

    def drop(connection: Connection, ids: Sequence[FileId]) -> None:
        copies.drop_states(connection, record.id, ids)

    run.write_in_pages(compared, drop)


def resolve_unreachable(run: RootRun, names: set[str]) -> None:
    """Resolve the finding that the copy can't be reached."""
    with run.writing() as connection:
        about = [one for name in names for one in findings.find_findings(connection, root_id=run.root.id, copy=name)]
        ids = [one.id for one in about if one.path is None and one.kind is FindingKind.COPY_UNREADABLE]
        run.note_resolved(findings.resolve_ids(connection, ids, resolution="the copy can be reached", now=run.now()))
