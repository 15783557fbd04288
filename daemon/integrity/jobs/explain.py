"""Everything that the catalog knows of one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, findings, history, imports
from integrity.catalog.candidates import CandidateRecord
from integrity.catalog.history import HistoryRecord
from integrity.catalog.rows import FileRecord
from integrity.config import Config, ConfiguredCopy
from integrity.jobs.targets import find_target
from integrity.model import BaselineReason, Finding, FindingState

if TYPE_CHECKING:
    from integrity.catalog.connect import Catalog, Connection


@dataclass(frozen=True, slots=True)
class FileStory:
    """
    What is known of one file, now and formerly.

    Args:
        root: absolute path of its root.
        path: relative to the root.
        record: None if it is not recorded (any more).
        candidate: newer content, or its absence, that waits for a decision.
        findings: all that were ever opened on it, oldest first.
        history: its former baselines, newest first.
        copies: the configured copies of its root.
        block_size_bytes: what its root's files are cut into now.
        imported_from: the manifest that its baseline was found equal to when it was taken; None if it was not imported.
    """

    root: bytes
    path: bytes
    record: FileRecord | None
    candidate: CandidateRecord | None
    findings: tuple[Finding, ...]
    history: tuple[HistoryRecord, ...]
    copies: tuple[ConfiguredCopy, ...]
    block_size_bytes: int
    imported_from: str | None = None

    @property
    def is_known(self) -> bool:
        """Say whether the catalog ever heard of it."""
        return self.record is not None or bool(self.history) or bool(self.findings)

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Select what is not resolved."""
        return tuple(one for one in self.findings if one.state is not FindingState.RESOLVED)


def explain(catalog: Catalog, config: Config, path: bytes) -> FileStory:
    """
    Gather what is known of the file at a real path.

    Raises:
        ConfigError: it lies in no root.
    """
    with catalog.read() as connection:
        target = find_target(connection, path)
        record = files.find_file(connection, catalog.sealer, target.root.id, target.prefix)
        former = history.history_of(connection, target.root.id, target.prefix)
        if record is not None:  # what it was under other names before it was moved here
            former += history.history_of(connection, target.root.id, record.id)
        manifest = None
        if record is not None and record.reason is BaselineReason.IMPORTED:
            manifest = imports.find_import(connection, target.root.id, record.id)
        return FileStory(
            root=target.root.path,
            path=target.prefix,
            record=record,
            candidate=None if record is None else candidates.get_candidate(connection, record.id),
            findings=_find_findings(connection, target.root.path, target.prefix, record),
            history=tuple(sorted({one.id: one for one in former}.values(), key=lambda one: -one.id)),
            copies=tuple(copy for copy in config.copies if copy.of == target.root.path),
            block_size_bytes=config.settings_for(target.root.path).block_size_bytes,
            imported_from=manifest,
        )


def _find_findings(connection: Connection, root: bytes, path: bytes, record: FileRecord | None) -> tuple[Finding, ...]:
    found = findings.find_findings(connection, prefix=path, include_resolved=True)
    if record is not None:
        found += findings.find_file_findings(connection, record.id)
    mine = {one.id: one for one in found if one.root == root and (one.path == path or record is not None)}
    return tuple(mine[key] for key in sorted(mine))
