"""
Plan the repair of a file: what is damaged, which copy has which blocks good, and whether the file may be touched.

Each needed block is fetched and verified while planning, before anything is written, so "repairable" is proved. Small
repairs keep the fetched blocks, so that each is transferred once.

Invariant: a file is replaced only while a finding says that it is wrong, and nothing about it changed since then. What
somebody wrote after that must not be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from integrity import program
from integrity.arbitration import FileState, find_stand
from integrity.catalog import files, findings, versions
from integrity.catalog.rows import FileRecord
from integrity.errors import ReadError, ReadInterrupted, Unstable, Vanished
from integrity.files.open_beneath import stat_beneath
from integrity.files.span import ReadMode
from integrity.jobs.judge.confirm import find_doubtful_blocks
from integrity.jobs.presence import describe_instead
from integrity.jobs.repair.exchange import NewFolder, find_gone_folders
from integrity.jobs.repair.inspect import Expected, Inspection, describe_move, inspect_file, load_expected
from integrity.jobs.repair.rights import find_conflict, find_model, find_owner
from integrity.jobs.repair.targets import find_names
from integrity.kinds import CONTENT_FINDINGS, REPAIRABLE
from integrity.model import Finding, FindingKind, Tally
from integrity.paths import absolute
from integrity.verdict import VERDICTS, Judgement, Shift, compare_witness
from integrity.words.findings import move_away

if TYPE_CHECKING:
    from integrity.catalog.versions import FileVersion
    from integrity.files.buffers import Buffers
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.good_blocks import BlockSource
    from integrity.jobs.repair.inspect import Tick
    from integrity.model import Capability, Reading, Witness


CONTESTED = frozenset(kind for kind, one in VERDICTS.items() if find_stand(Judgement(one)) is FileState.CONTESTED)
"""Findings about changes that may be intended: such a file is only repaired if it is named itself."""

_TAKEN = "something else has its name, or that of a folder above it: move that away first, then repair again"


def _describe_newer(path: bytes) -> str:
    """Say why a damaged file is left alone: an ordinary change was seen since, and the file was not named itself."""
    return (
        "a program wrote to it after it was found damaged, perhaps on purpose; to keep it as it is:"
        f" {program.command('accept', path, '--reason WHY')}; to restore the recorded content, name the file itself"
    )


def find_refusal(
    capability: Capability,
    record: FileRecord,
    inspection: Inspection,
    open_findings: Sequence[Finding],
    candidate: FileVersion | None,
) -> str | None:
    """
    Return why a file that is not what was recorded must be left alone; None if it may be repaired.

    ``candidate`` is newer content of the file that awaits a decision.
    """
    judged = [one for one in open_findings if one.kind in CONTENT_FINDINGS]
    if not judged:
        return (
            "it is not as recorded, but no finding says whether it is damaged or was changed; check it first:"
            f" {program.command('scrub FILE')}"
        )
    seen = inspection.witness
    if candidate is not None and not candidate.is_gone:
        if candidate.witness.stamps == seen.stamps:
            return None
        return _describe_moved(candidate.witness, seen)
    shift = compare_witness(capability, record.witness, seen)
    if shift.is_nothing:
        return None
    is_ctime_trusted = capability.has_ctime and shift.is_ctime_equal
    if shift.mtime is not Shift.EQUAL and not is_ctime_trusted:
        return _describe_moved(record.witness, seen)
    judged_at = max(one.updated_at for one in judged)
    if capability.has_ctime and seen.ctime_ns >= judged_at * 10**9:
        return _describe_moved(record.witness, seen)
    return None


def _find_write(record: FileRecord, inspection: Inspection, candidate: FileVersion | None) -> str | None:
    """Return why a file may have been written to since it was compared; None if it was not."""
    known = [record.witness] + ([] if candidate is None or candidate.is_gone else [candidate.witness])
    if any(one.stamps == inspection.witness.stamps for one in known):
        return None
    return f"it was written to since it was recorded; look at it, then compare again: {program.command('scan')}"


def _describe_moved(before: Witness, after: Witness) -> str:
    return (
        f"{describe_move(before, after)} since the finding, so its present content may be intended; check it again:"
        f" {program.command('scrub FILE')}; or, to keep it as it is:"
        f" {program.command('accept FILE --reason WHY')}"
    )


class PlanOutcome(StrEnum):
    """Outcome of planning the repair of one file."""

    WHOLE = "whole"  # the file is what was recorded: nothing to do
    REPAIRABLE = "repairable"
    NO_GOOD_COPY = "no_good_copy"  # all copies were queried, and some blocks are good in none
    UNREACHABLE = "unreachable"  # the same, but a copy could not be reached
    REFUSED = "refused"  # the file must not be touched
    UNREADABLE = "unreadable"  # the file could not be inspected, for another reason than its disk


@dataclass(frozen=True, slots=True)
class BlockSupply:
    """The blocks that one copy supplies."""

    copy: str
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """
    The plan for one file.

    Args:
        root: absolute path of its root.
        path: relative to the root.
        reason: for people; empty if the file is repairable or whole.
        expected: recorded content; None if unknown.
        inspection: current state; None if the file is gone or was not inspected.
        is_gone: no file has the name.
        uninspected: what the run counts a file as that is there and was not inspected.
        kinds: of the open findings about it.
        supplies: which blocks come from which copy.
        missing: the blocks that no copy has good.
        troubles: name of a copy, and why it could not supply blocks.
        others: records of its other names.
        asked: names of the copies that were queried.
        mode: permission bits for a lost file; None for its folder's.
        owner: owner and group for a lost file; None for its folder's.
        folders: lost folders above it, to be created with it.
        is_newer: its content was written since it was recorded, and awaits a decision.
        is_decided: a person says that what the copy has is right, whatever was recorded.
        held: verified blocks, as far as memory allows.
    """

    root: bytes
    path: bytes
    outcome: PlanOutcome
    reason: str = ""
    record: FileRecord | None = None
    expected: Expected | None = None
    inspection: Inspection | None = None
    is_gone: bool = False
    uninspected: Tally = Tally.SKIPPED
    kinds: tuple[FindingKind, ...] = ()
    supplies: tuple[BlockSupply, ...] = ()
    missing: tuple[int, ...] = ()
    troubles: tuple[tuple[str, str], ...] = ()
    others: tuple[FileRecord, ...] = ()
    asked: tuple[str, ...] = ()
    mode: int | None = None
    owner: tuple[int, int] | None = None
    folders: tuple[NewFolder, ...] = ()
    is_newer: bool = False
    is_decided: bool = False
    held: dict[int, bytes] = field(default_factory=dict, repr=False, compare=False)

    @property
    def damaged(self) -> tuple[int, ...]:
        """Return the numbers of the blocks that must come from copies; none if the file was not inspected."""
        if self.inspection is not None:
            return self.inspection.bad
        return tuple(range(self.expected.count)) if self.expected is not None and self.is_gone else ()

    @property
    def damaged_bytes(self) -> int:
        """Return the total length of the damaged blocks."""
        expected = self.expected
        return 0 if expected is None else sum(expected.length(index) for index in self.damaged)

    @property
    def tally(self) -> Tally:
        """Return what the run counts the file as if it is not repaired."""
        if self.inspection is not None:
            return Tally.VERIFIED if self.outcome is PlanOutcome.WHOLE else Tally.DAMAGED
        return Tally.MISSING if self.is_gone else self.uninspected

    @property
    def token(self) -> str:
        """Return a digest, in hex, of all that a repair would rest on: two plans with the same token do the same."""
        stat = None if self.inspection is None else self.inspection.stat
        found = None if stat is None else (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        record = None if self.record is None else (self.record.version, self.record.digests)
        does = (self.damaged, self.supplies, self.missing, self.names, self.mode, self.owner, self.folders)
        return sha256(repr((self.root, self.outcome.value, self.reason, record, found, does)).encode()).hexdigest()

    @property
    def names(self) -> tuple[bytes, ...]:
        """Return all names of the file, relative to the root."""
        return (self.path, *(one.path for one in self.others))

    @property
    def records(self) -> tuple[FileRecord, ...]:
        """Return the records of all names."""
        return self.others if self.record is None else (self.record, *self.others)


class RepairPlanner:
    """
    Plan the repairs of one root.

    Args:
        hold_bytes: bytes of fetched blocks that are kept per file for building it.
        tick: called with the number of bytes processed; returns whether to continue.
    """

    def __init__(self, run: RootRun, buffers: Buffers, *, hold_bytes: int, tick: Tick) -> None:
        self._run = run
        self._buffers = buffers
        self._hold_bytes = hold_bytes
        self._tick = tick
        self._reader = run.reader(ReadMode.DISK)

    def plan(
        self,
        path: bytes,
        source: BlockSource,
        *,
        is_named: bool,
        right: Reading | None = None,
        decided: Witness | None = None,
    ) -> FilePlan:
        """
        Plan the repair of one file.

        Args:
            path: relative to the root.
            source: the copies of the file.
            is_named: the user named this file, not only its folder.
            right: of the copy whose content a person says is right; None: the recorded content is.
            decided: of the file when a person decided about it just now: as long as it has this, nothing wrote to it
                since, however young its ctime is.

        Raises:
            ReadInterrupted: stopped.
        """
        run = self._run
        with run.catalog.read() as connection:
            record = files.find_file(connection, run.root.id, path)
            if record is None:
                reason = "it is not recorded, so its right content is unknown"
                return FilePlan(run.root.path, path, PlanOutcome.REFUSED, reason)
            found = findings.find_findings(connection, root_id=run.root.id, prefix=path)
            open_findings = [one for one in found if one.path == path and one.copy is None]
            expected = load_expected(connection, record)
            if right is not None and expected is not None:
                expected = Expected(right.witness.size_bytes, right.digests, right.blocks)
        kinds = tuple(one.kind for one in open_findings)
        draft = FilePlan(
            *(run.root.path, path, PlanOutcome.REFUSED, "", record, expected),
            kinds=kinds,
            is_decided=right is not None,
        )
        if expected is None or FindingKind.CATALOG_DAMAGED in draft.kinds:
            reason = (
                "its record in the catalog contradicts itself, so nothing can be proved; check the catalog:"
                f" {program.command('catalog check')}"
            )
            return replace(draft, reason=reason, expected=None)
        try:
            inspection = inspect_file(self._reader, path, run.root_fd, expected, self._buffers, self._tick)
        except Vanished:
            if right is not None:
                return replace(draft, reason="it is missing; copy it back yourself, then scan", is_gone=True)
            return self._plan_gone(replace(draft, is_gone=True), expected, source)
        except ReadInterrupted:
            raise
        except ReadError as error:
            tally = Tally.UNSTABLE if isinstance(error, Unstable) else Tally.UNREADABLE
            return replace(draft, outcome=PlanOutcome.UNREADABLE, reason=str(error), uninspected=tally)
        return self._plan_damaged(
            draft,
            expected,
            inspection,
            open_findings,
            source,
            is_named=is_named,
            is_unmoved=inspection.witness == decided,
        )

    def _plan_damaged(
        self,
        draft: FilePlan,
        expected: Expected,
        inspection: Inspection,
        open_findings: Sequence[Finding],
        source: BlockSource,
        *,
        is_named: bool,
        is_unmoved: bool,
    ) -> FilePlan:
        run, record = self._run, draft.record
        assert record is not None
        doubtful = find_doubtful_blocks(run, record, inspection.witness)
        inspection = replace(inspection, bad=tuple(sorted({*inspection.bad, *doubtful})))
        draft = replace(draft, inspection=inspection)
        if inspection.is_whole(expected):
            return replace(draft, outcome=PlanOutcome.WHOLE)
        if not is_named and set(draft.kinds) & CONTESTED:
            reason = "a program changed it, perhaps on purpose; to restore the recorded content, name the file itself"
            return replace(draft, reason=reason)
        with run.catalog.read() as connection:
            candidate = versions.get_candidate(connection, record.id)
            reason_moved = None
            if draft.is_decided:
                reason_moved = _find_write(record, inspection, candidate)
            elif not is_unmoved:
                reason_moved = find_refusal(run.capability, record, inspection, open_findings, candidate)
            recorded = load_expected(connection, record)
            names, reason_names = find_names(run, connection, record, inspection.stat, recorded or expected)
            newer = versions.get_candidates(connection, [one.id for one in names])
        is_newer = any(not (one.is_gone or one.is_damage) for one in newer.values())
        draft = replace(draft, others=tuple(names[1:]), is_newer=is_newer)
        if is_newer and not is_named:
            return replace(draft, reason=_describe_newer(absolute(run.root.path, draft.path)))
        if reason_moved or reason_names:
            return replace(draft, reason=reason_moved or reason_names or "")
        return self._refuse_conflict(self._fetch_blocks(draft, expected, source), record, inspection, source)

    def _refuse_conflict(
        self, plan: FilePlan, record: FileRecord, inspection: Inspection, source: BlockSource
    ) -> FilePlan:
        """Refuse the plan if the recorded bytes would get the rights of another file in this place."""
        if plan.outcome is not PlanOutcome.REPAIRABLE:
            return plan
        run, copies = self._run, source.find_stats(one.copy for one in plan.supplies)
        try:
            reason = find_conflict(run.root_fd, run.capability, record, inspection, copies)
        except OSError as error:
            reason = (
                f"it disappeared or was replaced: {error.strerror}; check it again: {program.command('scrub FILE')}"
            )
        return plan if reason is None else replace(plan, outcome=PlanOutcome.REFUSED, reason=reason)

    def _plan_gone(self, draft: FilePlan, expected: Expected, source: BlockSource) -> FilePlan:
        """Plan for a lost file: it is recreated if a finding says that it should exist."""
        root_fd, path = self._run.root_fd, draft.path
        instead = describe_instead(root_fd, path)
        try:
            stat_beneath(root_fd, path)
        except FileNotFoundError:
            pass
        except OSError:
            return replace(draft, reason=_TAKEN)
        else:
            path = absolute(self._run.root.path, path)
            reason = f"it is missing{instead}: move that away first, then repair again: {move_away(path)}"
            return replace(draft, reason=reason if instead else _TAKEN)
        if not set(draft.kinds) & REPAIRABLE:
            return replace(draft, reason=f"it is missing, but no finding says so yet; run: {program.command('scan')}")
        try:
            gone = find_gone_folders(root_fd, path)
        except OSError as failure:
            return replace(draft, reason=f"{_TAKEN}: {failure.strerror}")
        plan = self._fetch_blocks(draft, expected, source)
        folders = tuple(NewFolder(folder, self._find_mode(plan, source, folder)) for folder in gone)
        own = source.find_own_stat()
        model = own or find_model(source.find_stats(one.copy for one in plan.supplies))
        mode = None if model is None else model.st_mode & 0o777
        return replace(plan, mode=mode, owner=find_owner(model, is_own=own is not None), folders=folders)

    def _find_mode(self, plan: FilePlan, source: BlockSource, path: bytes) -> int | None:
        """Return the permission bits of a folder in the copies that supply blocks."""
        whole = absolute(self._run.root.path, path)
        return next((mode for one in plan.supplies if (mode := source.find_mode(one.copy, whole)) is not None), None)

    def _fetch_blocks(self, draft: FilePlan, expected: Expected, source: BlockSource) -> FilePlan:
        """Fetch and verify each block that is needed."""
        found: dict[str, list[int]] = {}
        missing: list[int] = []
        held: dict[int, bytes] = {}
        room = self._hold_bytes
        for index in draft.damaged:
            fetched = source.fetch(index, expected)
            if not self._tick(expected.length(index)):
                raise ReadInterrupted("interrupted")
            if fetched is None:
                missing.append(index)
                continue
            name, data = fetched
            found.setdefault(name, []).append(index)
            if len(data) <= room:
                held[index] = data
                room -= len(data)
        plan = replace(
            draft,
            outcome=PlanOutcome.REPAIRABLE,
            supplies=tuple(BlockSupply(name, tuple(blocks)) for name, blocks in found.items()),
            missing=tuple(missing),
            troubles=tuple(source.troubles.items()),
            asked=source.names,
            held=held,
        )
        if not missing:
            return plan
        if not source.names:
            reason = "no copy of it is known; name one: --from COPY"
            return replace(plan, outcome=PlanOutcome.NO_GOOD_COPY, reason=reason)
        if source.has_unreachable:
            reason = "the copies that could be reached are not intact where this file is damaged"
            return replace(plan, outcome=PlanOutcome.UNREACHABLE, reason=reason)
        reason = "no copy is intact where this file is damaged; add another one: --from COPY --from OTHER"
        return replace(plan, outcome=PlanOutcome.NO_GOOD_COPY, reason=reason)
