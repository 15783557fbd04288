"""Collect everything that the catalog knows about one file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import copies, files, findings, root_meta, roots, versions
from integrity.catalog.copies import CopyRecord, CopyState
from integrity.catalog.rows import FileRecord
from integrity.catalog.versions import FileVersion
from integrity.config import Config
from integrity.config.copy_urls import hide_secrets
from integrity.jobs.compare.source import find_known_sources, is_left_out
from integrity.jobs.targets import Target, find_target
from integrity.model import BaselineReason, Finding, FindingId, FindingState, RootId
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection


@dataclass(frozen=True, slots=True)
class FileCopy:
    """
    A copy that should contain a file.

    Args:
        url: its location, without secrets.
        state: the last comparison with the present baseline; None if there was none.
        has_bytes: it is no checksum list.
        is_left_out: the backup leaves it out on purpose.
    """

    name: str
    url: str
    state: CopyState | None
    has_bytes: bool
    is_left_out: bool


@dataclass(frozen=True, slots=True)
class FileStory:
    """
    What is known about one file, now and formerly, or about a folder with findings.

    Args:
        root: absolute path of its root.
        path: relative to the root; empty for the root itself.
        record: None if it is not recorded (any more).
        candidate: newer content, or a removal, that waits for a decision.
        findings: all findings ever opened on it, oldest first.
        history: its former baselines, newest first.
        imported_from: the manifest that the baseline was imported from; None if it was not imported.
    """

    root: bytes
    root_id: RootId
    path: bytes
    is_folder: bool
    record: FileRecord | None
    candidate: FileVersion | None
    findings: tuple[Finding, ...]
    history: tuple[FileVersion, ...]
    copies: tuple[FileCopy, ...]
    block_size_bytes: int
    imported_from: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether the catalog knows or ever knew it."""
        return self.record is not None or bool(self.history) or bool(self.findings)

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """The findings that are not resolved."""
        return tuple(one for one in self.findings if one.state is not FindingState.RESOLVED)


def explain(catalog: Catalog, config: Config, path: bytes) -> FileStory:
    """
    Return what is known about the file or folder at a real path.

    Raises:
        ConfigError: the path lies in no root.
    """
    with catalog.read() as connection:
        target = find_target(connection, path)
        record = files.find_file(connection, target.root.id, target.prefix)
        former = versions.former_of(connection, target.root.id, target.prefix)
        if record is not None:  # its history under other names, before it was moved here
            former += versions.former_of(connection, target.root.id, record.id)
        manifest = None
        if record is not None and record.reason is BaselineReason.IMPORTED:
            manifest = root_meta.find_import(connection, target.root.id, record.id)
        return FileStory(
            root=target.root.path,
            root_id=target.root.id,
            path=target.prefix,
            is_folder=roots.has_folder(connection, target.root.id, target.prefix),
            record=record,
            candidate=None if record is None else versions.get_candidate(connection, record.id),
            findings=_find_findings(connection, target.root.path, target.prefix, record),
            history=tuple(sorted({one.id: one for one in former}.values(), key=lambda one: -one.id)),
            copies=_find_copies(catalog, config, target, record),
            block_size_bytes=config.settings_for(target.root.path).block_size_bytes,
            imported_from=manifest,
        )


def find_place(catalog: Catalog, number: int) -> bytes:
    """
    Return the absolute path of the file or folder that a finding is about.

    Raises:
        ConfigError: there is no such finding.
    """
    with catalog.read() as connection:
        one = findings.get_finding(connection, FindingId(number))
    return absolute(one.root, one.path)


def _find_copies(catalog: Catalog, config: Config, target: Target, record: FileRecord | None) -> tuple[FileCopy, ...]:
    """Return the copies that should contain a file; several disks that take turns are several copies."""
    said: list[tuple[CopyRecord, CopyState]] = []
    if record is not None:
        with catalog.read() as connection:
            said = copies.states_of_file(connection, record.id)
    found, path = [], absolute(target.root.path, target.prefix)
    for source in find_known_sources(catalog, config, path):
        url, is_out = hide_secrets(source.url), is_left_out(source, path, is_folder=record is None)
        disks = [(copy, state) for copy, state in said if copy.base_name == source.name]
        for copy, state in disks:
            is_current = record is not None and state.version == record.version
            found.append(FileCopy(copy.name, url, state if is_current else None, copy.has_bytes, is_out))
        if not disks:
            is_list = source.path is not None and os.path.isfile(source.path)
            found.append(FileCopy(source.name, url, None, not is_list, is_out))
    return tuple(found)


def _find_findings(connection: Connection, root: bytes, path: bytes, record: FileRecord | None) -> tuple[Finding, ...]:
    found = findings.find_findings(connection, prefix=path, include_resolved=True)
    if record is not None:
        found += findings.find_findings(connection, file_id=record.id, include_resolved=True)
    paths = {path} if path else {path, None}  # findings about a whole root have no path
    mine = {one.id: one for one in found if one.root == root and (one.path in paths or record is not None)}
    return tuple(findings.as_incidents(connection, (mine[key] for key in sorted(mine))))
