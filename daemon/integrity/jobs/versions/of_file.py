"""
Tell which versions of its backups have a file whole, and record that with the findings about damaged and missing files.

Each content is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from integrity.arbitration import CopyVote, Level
from integrity.catalog import copies, files, findings, versions
from integrity.config.copy_urls import keeps_versions
from integrity.copies.spans import VersionSpan, find_spans
from integrity.copies.versions import CopyVersion
from integrity.errors import ConfigError, CopyUnreachable, ReadError, ReadInterrupted, show_path
from integrity.files.span import UNLIMITED
from integrity.jobs.compare.copy_answer import answer_by_reading, is_older
from integrity.jobs.compare.read_back import read_from_copy
from integrity.jobs.compare.source import find_known_sources, find_source, is_left_out, place_in_copy
from integrity.jobs.judge.content_diff import Difference, compare_content
from integrity.jobs.repair_advice import FROM_PARITY, REPAIR, advise_repair
from integrity.jobs.targets import find_target, is_inside
from integrity.model import SeenVersion
from integrity.paths import absolute
from integrity.verdict import VERDICTS

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.rows import FileRecord
    from integrity.config import Config
    from integrity.copies.protocol import Copy, CopyEntry
    from integrity.hashing.tasks import StopSignal
    from integrity.model import Finding, RootId

_BLOCK_BYTES = 1 << 20


class FileInVersions(NamedTuple):
    """
    One content of a file in consecutive versions of a copy.

    Attributes:
        versions: the oldest first.
        entry: as listed; None: these versions do not have the file.
        vote: the content against the catalog; DIFFERS: as nothing that was ever recorded.
        is_silent: it differs, with the size and time of what is recorded: nobody wrote it, as far as times tell.
        is_reading: the oldest of the versions was read from the file itself.
        reason: why it can't be read; else empty.
    """

    versions: tuple[CopyVersion, ...]
    entry: CopyEntry | None
    vote: CopyVote
    is_silent: bool = False
    is_reading: bool = False
    reason: str = ""


class CopyHistory(NamedTuple):
    """
    What the versions of one copy have of a file.

    Attributes:
        found: the newest first.
        recorded_at: when the recorded content was read first, here; None: the file is gone.
        trouble: why the versions could not be looked at; else empty.
    """

    copy: str
    found: tuple[FileInVersions, ...]
    recorded_at: int | None = None
    trouble: str = ""

    def is_from_before(self, one: FileInVersions) -> bool:
        """Return whether a content was read from the file before the recorded one was, here and in the versions."""
        first = min((version.taken_at for version in self.good), default=None)
        times = [time for time in (first, self.recorded_at) if time is not None]
        return one.is_reading and bool(times) and one.versions[0].taken_at < min(times)

    @property
    def good(self) -> list[CopyVersion]:
        """Return the versions that have the recorded content, the newest first."""
        return [version for one in self.found if one.vote is CopyVote.SAME for version in reversed(one.versions)]


def find_histories(
    catalog: Catalog,
    config: Config,
    path: bytes,
    copy: str | None = None,
    *,
    stop: StopSignal,
    most: int | None = None,
) -> Iterator[CopyHistory]:
    """
    Yield what each copy that keeps versions has of a file, which may be gone.

    Args:
        path: real path of the file.
        copy: only this one; None: all that should have the file.
        most: look only at so many versions of each, the newest; None: at all.

    Raises:
        ConfigError: the file lies in no root, or no copy of it keeps versions.
        ReadInterrupted: ``stop`` was set.
    """
    with catalog.read() as connection:
        target = find_target(connection, path)
        record = files.find_file(connection, target.root.id, target.prefix)
        others = set() if record is None else copies.find_other_names(connection, record.id)
    names = [path, *(absolute(target.root.path, other) for other in sorted(others))]
    named = None if copy is None else find_source(catalog, config, copy, [path])
    sources = [
        one
        for one in (find_known_sources(catalog, config, path) if named is None else [named])
        if keeps_versions(one.url) and not is_left_out(one, path, is_folder=False)
    ]
    if not sources:
        raise ConfigError(
            f"{show_path(path)}: no copy of it keeps versions, as restic:, borg: and snapshots: do;"
            " name one: --with COPY"
        )
    for source in sources:
        try:
            with source.open(must_stop=stop.is_set) as opened:
                look = _Look(catalog, target.root.id, target.prefix, record, opened, stop)
                places = [place_in_copy(source, name) for name in names if is_inside(name, source.base.rstrip(b"/"))]
                found = tuple(map(look.judge, find_spans(opened, places, most)))
                yield CopyHistory(source.recorded_name, found, None if record is None else record.recorded_at)
        except (CopyUnreachable, ConfigError) as error:  # the program is missing, or the configuration says too little
            yield CopyHistory(source.recorded_name, (), trouble=str(error))


class _Look:
    """A look at one file in one copy; ``record`` is None of a file that is gone."""

    def __init__(
        self,
        catalog: Catalog,
        root_id: RootId,
        path: bytes,
        record: FileRecord | None,
        copy: Copy,
        stop: StopSignal,
    ) -> None:
        with catalog.read() as connection:
            self._former = versions.former_of(connection, root_id, path)
        self._catalog, self._record, self._copy, self._stop = catalog, record, copy, stop

    def judge(self, span: VersionSpan) -> FileInVersions:
        """Read what some versions have, and hold it against what is recorded."""
        entry, record = span.entry, self._record
        if entry is None:
            vote = CopyVote.UNREADABLE if span.trouble else CopyVote.MISSING
            return FileInVersions(span.versions, None, vote, reason=span.trouble)
        self._copy.choose(span.versions[0])  # the one for which it was read
        block_bytes = (None if record is None else record.block_size_bytes) or _BLOCK_BYTES
        try:
            reading = read_from_copy(self._copy, entry.path, block_bytes, pace=UNLIMITED, stop=self._stop)
        except ReadInterrupted:
            raise
        except ReadError as error:
            return FileInVersions(span.versions, entry, CopyVote.UNREADABLE, reason=str(error))
        if record is None:
            answer = answer_by_reading(Difference(is_same=False), reading, self._former, Level.READ)
            is_last = is_older(self._former[:1], answer.size_bytes, answer.stated)
            return FileInVersions(span.versions, entry, CopyVote.SAME if is_last else answer.vote)
        with self._catalog.read() as connection:
            difference = compare_content(connection, record, reading)
        answer = answer_by_reading(difference, reading, self._former, Level.READ)
        is_silent = answer.vote is CopyVote.DIFFERS and entry.looks_like(*record.witness.size_and_mtime)
        is_reading = self._copy.is_reading(span.versions[0])
        return FileInVersions(span.versions, entry, answer.vote, is_silent, is_reading, answer.reason)


_MOST_FILES = 20
"""Of more, none is looked for: what befell so many is not told one by one."""

_MOST_VERSIONS = 60


class StopIf(NamedTuple):
    """A signal to stop that is a condition."""

    is_set: Callable[[], bool]


def look_for_versions(
    catalog: Catalog,
    config: Config,
    *,
    stop: StopSignal,
    warn: Callable[[str], None],
    root_id: RootId | None = None,
) -> list[Finding]:
    """
    Record with open findings which versions have their files, and advise to repair them from there.

    Each finding is looked at once; one whose copies can't be reached, or for which there was no time, is again later.

    Args:
        catalog: open for writing.
        warn: receives, once each, why copies can't be looked at.
        root_id: only findings of this root; None: of all.

    Returns:
        The findings that have another advice now.
    """
    with catalog.read() as connection:
        unlooked = findings.find_unlooked(
            connection, VERDICTS, root_id, unless=REPAIR, but=FROM_PARITY, most=_MOST_FILES + 1
        )
    done: list[Finding] = []
    troubles: dict[str, None] = {}
    for one in unlooked if len(unlooked) <= _MOST_FILES else ():
        try:
            seen = _look(catalog, config, absolute(one.root, one.path), stop, troubles)
        except ReadInterrupted:
            break
        except ConfigError:
            continue  # none of its copies keeps versions
        if seen is not None and (advised := _advise(catalog, one, seen)) is not None:
            done.append(advised)
    for trouble in troubles:
        warn(trouble)
    return done


def _look(
    catalog: Catalog, config: Config, path: bytes, stop: StopSignal, troubles: dict[str, None]
) -> list[SeenVersion] | None:
    """Return what all versions have of a file; None if none has it whole, and not all could be looked at."""
    seen: list[SeenVersion] = []
    histories = list(find_histories(catalog, config, path, stop=stop, most=_MOST_VERSIONS))
    for history in histories:
        if history.trouble:
            troubles[f"the versions of {history.copy} can't be looked at: {history.trouble}"] = None
        seen += (
            SeenVersion(history.copy, version.name, version.taken_at, one.vote, one.is_silent)
            for one in history.found
            for version in reversed(one.versions)
        )
    is_open = any(one.trouble for one in histories) and not any(one.good for one in histories)
    return None if is_open else seen


def _advise(catalog: Catalog, finding: Finding, seen: list[SeenVersion]) -> Finding | None:
    """Record what was seen, and the advice that follows; None if the finding or the record is gone."""
    with catalog.transaction() as connection:
        target = find_target(connection, absolute(finding.root, finding.path))
        record = files.find_file(connection, target.root.id, target.prefix)
        if record is None:
            return None
        findings.set_versions(connection, finding.id, seen)
        advice = advise_repair(connection, target.root.id, target.root.path, record.path, record.id, finding.kind)
        if advice is not None:
            findings.set_step(connection, [finding.id], advice.words, advice.command)
        return next(iter(findings.get_findings(connection, [finding.id])), None)
