"""
What a catalog must hold, kept as plain lists beside it: a state machine that does to both what jobs do to the catalog.

After each step all that can be asked is asked and compared: records, history, findings, candidates, what is verified
next, the coverage, and the waits for a copy. A step may be taken back as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import astuple, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from integrity.arbitration import CopyVote
from integrity.catalog import baselines, blocks, copies, files, findings, maintenance, roots, versions
from integrity.catalog.baselines import MovedFile, Verified
from integrity.catalog.connection import Connection
from integrity.catalog.copies import CopyRecord, CopyState, CopyWaits
from integrity.catalog.coverage import DueDay, coverage, find_due_days
from integrity.catalog.files import WorkOrder, create_worklist, page_worklist
from integrity.catalog.findings import NewFinding
from integrity.catalog.rows import FileContent, Sighting, split_path
from integrity.catalog.versions import VersionState
from integrity.errors import CatalogError
from integrity.kinds import CONTENT_FINDINGS, DOUBTS
from integrity.model import (
    BaselineReason,
    CopyId,
    Digests,
    FileId,
    FindingId,
    FindingKind,
    FindingState,
    ReadHow,
    Reading,
    Readings,
    Witness,
)
from support.catalogs import DAY_S, MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading, run_daily

_NUMBERS = st.integers(0, 30)
_paths = st.sampled_from([b"b", b"a/b", b"a/\xff\n", b"a/b/c", b"a.b/c"])
_PREFIXES = b"", b"a", b"a/b", b"b", b"a.b", b"c"
_KINDS = [FindingKind.ROT, FindingKind.UNREADABLE, FindingKind.UNSTABLE, FindingKind.COPY_MISSING]
_kinds = st.one_of(st.sampled_from(_KINDS), st.sampled_from(_KINDS), st.sampled_from(sorted(CONTENT_FINDINGS)))
_hows = st.sampled_from(list(ReadHow))
_DECISIONS = {BaselineReason.ACCEPTED, BaselineReason.REPAIRED}
_OF_JOBS = [
    BaselineReason(word) for word in ("edited", "rolled_back", "grown", "rotated", "rewritten_in_place", "racy")
]
_replaces = st.one_of(st.sampled_from(sorted(_DECISIONS)), st.sampled_from(_OF_JOBS))
_votes = st.sampled_from([CopyVote.SAME, CopyVote.NOT_COMPARABLE, CopyVote.UNREADABLE])
_SILENT = {CopyVote.NOT_COMPARABLE, CopyVote.UNREADABLE}
_MONTH_S = 30 * DAY_S
_AHEAD_S = 15 * 60
_KEPT_DAYS = 90
_ORDERS: list[tuple[bytes, int | None, int | None, bool, int | None, int | None]] = [
    # prefix, due after days, older than days, never verified only, percent, at least bytes
    (b"", None, None, False, None, None),
    (b"", 30, None, False, None, None),
    (b"", 30, None, False, None, 0),
    (b"", 8, None, False, None, 150),
    (b"a", 8, None, False, None, 3 * MIB),
    (b"", None, None, True, None, None),
    (b"", None, 7, False, None, None),
    (b"", None, None, False, 50, None),
    (b"a/b", None, None, False, 1, None),
    (b"", None, None, False, None, 250),
    (b"", None, None, True, 100, None),
]
_CHECKED_EVERY = 3
_TAKEN_BACK_EVERY = 11


@dataclass
class _File:
    path: bytes
    reading: Reading
    recorded_at: int
    how: ReadHow
    version: int = 1
    reason: BaselineReason = BaselineReason.RECORDED
    verified_at: int | None = None
    is_suspect: bool = False
    seen: Sighting | None = None
    compared: dict[CopyId, CopyState] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return self.reading.witness.size_bytes

    @property
    def content(self) -> tuple[int, bytes | None]:
        return self.size, self.reading.digests.md5

    def find_last_check(self, now: int) -> int:
        times = (at for at in (self.verified_at, self.recorded_at) if at is not None and at <= now + _AHEAD_S)
        return next(times, 0)

    def is_never_verified(self, now: int) -> bool:
        return self.verified_at is None or self.verified_at > now + _AHEAD_S


@dataclass
class _Finding:
    kind: FindingKind
    file_id: FileId | None
    path: bytes | None
    opened_at: int
    updated_at: int
    damaged: tuple[int, ...]
    state: FindingState = FindingState.OPEN
    muted_until: int | None = None
    resolution: str | None = None


@dataclass
class _Candidate:
    reading: Reading | None  # None: the file is gone
    state: VersionState


@dataclass
class _Former:
    file_id: FileId
    path: bytes
    version: int
    content: tuple[int, bytes | None]
    recorded_at: int
    reason: BaselineReason
    replaced_at: int
    because: BaselineReason
    note: str | None


_WAITING = (VersionState.STAGED, VersionState.FROZEN, VersionState.HELD)


@dataclass
class _State:
    files: dict[FileId, _File] = field(default_factory=dict)
    history: list[_Former] = field(default_factory=list)
    findings: dict[FindingId, _Finding] = field(default_factory=dict)
    candidates: dict[FileId, _Candidate] = field(default_factory=dict)


@cache
def _make_reading(seed: int, shape: str) -> Reading:
    """Make what a reader finds; shape: of its digests."""
    count = {"small": 0, "large": 2, "huge": 1025, "without digests": 2, "without crc": 2}[shape]
    of_blocks = make_blocks(seed, count) if count else None
    digests = make_digests(seed)
    if shape == "without digests":
        digests = Digests()
    elif shape == "without crc" and of_blocks is not None:
        digests, of_blocks = digests._replace(crc64nvme=None), replace(of_blocks, crc64nvme=b"")
    return make_reading(seed, digests=digests, blocks=of_blocks, size_bytes=count * MIB or 100 + seed % 2)


_readings = st.builds(
    _make_reading,
    st.integers(0, 3),
    st.sampled_from(["small", "small", "small", "large", "huge", "without digests", "without crc"]),
)


_Row = TypeVar("_Row", bound=tuple[Any, ...])


class _TakenBackError(Exception):
    pass


class CatalogMachine(RuleBasedStateMachine):
    """A catalog with one root, and the model beside it. Numbers of rules say which file is meant, counted round."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self._box = CatalogBox(bytes(Path(self._folder.name) / "catalog.db"))
        self._now = NOW
        self._inode = self._steps = 0
        self._is = _State()
        self._copies: list[CopyRecord] = []

    def teardown(self) -> None:
        """Look the catalog through, and remove it."""
        try:
            self.check()
            report = maintenance.check(self._box.catalog)
            assert report.is_right, report
            assert report.orphan_runs == 0, report
        finally:
            self._box.__exit__(None, None, None)
            self._folder.cleanup()

    def has_files(self) -> bool:
        """Say whether there is anything to change."""
        return bool(self._is.files)

    # Steps

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        """Do something; each so many steps it is taken back."""
        before = deepcopy(self._is)
        with suppress(_TakenBackError), self._box.catalog.transaction() as c:
            yield c
            if self._steps % _TAKEN_BACK_EVERY == 0:
                self._is = before
                raise _TakenBackError

    def _refuse(self, change: Callable[[Connection], object], why: str) -> None:
        """Try something that is refused, and with it all of its transaction."""
        with pytest.raises(CatalogError, match=why), self._box.catalog.transaction() as c:
            change(c)

    def _id(self, number: int) -> FileId:
        ids = sorted(self._is.files)
        return ids[number % len(ids)]

    def _read(self, reading: Reading) -> Reading:
        self._inode += 1
        witness = reading.witness._replace(inode=(1 << 40) - self._inode)
        if self._inode % 3 == 0:
            witness = witness._replace(mtime_ns=-1, ctime_ns=1 << 62, is_racy=True)
        return reading._replace(witness=witness)

    @rule(days=st.sampled_from([0, 1, 8, 31, 61]))
    def pass_days(self, days: int) -> None:
        """The catalog is opened again; days passed on which the program ran, and old history is forgotten."""
        self._box.reopen()
        with self._box.catalog.transaction() as c:
            run_daily(c, self._now, self._now + days * DAY_S)
            self._now += days * DAY_S
            outdated = versions.find_outdated(c, self._now)
            versions.forget_deleted(c, outdated)
        gone_before = self._now - _KEPT_DAYS * DAY_S
        forgotten = {
            one.file_id
            for one in self._is.history
            if one.because is BaselineReason.DELETED
            and one.replaced_at // DAY_S * DAY_S + DAY_S <= gone_before
            and one.file_id not in self._is.files
        }
        assert set(outdated) <= {one.file_id for one in self._is.history if one.replaced_at < gone_before + 2 * DAY_S}
        assert set(outdated) >= forgotten
        self._is.history = [one for one in self._is.history if one.file_id not in outdated]

    @rule(paths=st.lists(_paths, min_size=1, max_size=3, unique=True), reading=_readings)
    def record(self, paths: list[bytes], reading: Reading) -> None:
        """Files are recorded together; if one of them is recorded already, none is."""
        box = self._box
        rows = [baselines.NewFile(path, self._read(reading)) for path in paths]
        readings = Readings.of([row.reading for row in rows])

        def record(c: Connection) -> list[FileId]:
            return baselines.record_files(c, box.root, paths, readings, now=self._now, boot_id=box.boot_id)

        if {one.path for one in self._is.files.values()} & set(paths):
            self._refuse(record, "UNIQUE")
            return
        with self._changing() as c:
            for file_id, row in zip(record(c), rows, strict=True):
                assert file_id not in self._is.files
                self._is.files[file_id] = _File(row.path, row.reading, self._now, row.reading.how)

    @precondition(has_files)
    @rule(number=_NUMBERS, reading=_readings, because=_replaces)
    def replace(self, number: int, reading: Reading, because: BaselineReason) -> None:
        """A baseline is replaced, unless a finding holds it and no person said so."""
        box, file_id, reading = self._box, self._id(number), self._read(reading)

        def replace_it(c: Connection) -> None:
            how = {"because": because, "now": self._now, "boot_id": box.boot_id, "note": "why"}
            baselines.replace_baseline(c, box.root, file_id, reading, **how)  # type: ignore[arg-type]

        if self._is_frozen(file_id) and because not in _DECISIONS:
            self._refuse(replace_it, "open finding")
            return
        with self._changing() as c:
            replace_it(c)
            self._put(file_id, reading, because, "why")
            self._is.candidates.pop(file_id, None)

    def _put(self, file_id: FileId, reading: Reading, because: BaselineReason, note: str | None = None) -> None:
        was = self._is.files[file_id]
        self._note_former(file_id, because, note)
        self._is.files[file_id] = _File(was.path, reading, self._now, reading.how, was.version + 1, because)

    def _note_former(self, file_id: FileId, because: BaselineReason, note: str | None = None) -> None:
        was = self._is.files[file_id]
        reasons = was.recorded_at, was.reason, self._now, because, note
        self._is.history.append(_Former(file_id, was.path, was.version, was.content, *reasons))

    @precondition(has_files)
    @rule(number=_NUMBERS, how=_hows, is_moved=st.booleans(), ahead_s=st.sampled_from([0, 0, 300, 400 * DAY_S]))
    def verify(self, number: int, how: ReadHow, is_moved: bool, ahead_s: int) -> None:
        """A file is verified, maybe with a new inode, maybe with a clock that is ahead."""
        box, file_id = self._box, self._id(number)
        one = self._is.files[file_id]
        witness = self._read(one.reading).witness._replace(ctime_ns=self._now) if is_moved else None
        with self._changing() as c:
            rows = [Verified(box.get(file_id), witness, how)]
            now = self._now + ahead_s
            baselines.mark_verified(c, rows, now=now, boot_id=box.boot_id)
            one = self._is.files[file_id]
            one.verified_at, one.how, one.is_suspect, one.seen = now, how, False, None
            if witness is not None:
                one.reading = one.reading._replace(witness=witness)

    @precondition(has_files)
    @rule(number=_NUMBERS, seen=st.sampled_from([None, Sighting(7, 8)]))
    def suspect(self, number: int, seen: Sighting | None) -> None:
        """The ctime of a file moved."""
        with self._changing() as c:
            baselines.mark_suspects(c, {self._id(number): seen})
            one = self._is.files[self._id(number)]
            one.is_suspect, one.seen = True, seen

    @precondition(has_files)
    @rule(number=_NUMBERS, because=st.sampled_from([BaselineReason.DELETED, BaselineReason.FORGOTTEN]))
    def remove(self, number: int, because: BaselineReason) -> None:
        """A file leaves the catalog."""
        box, file_id = self._box, self._id(number)
        with self._changing() as c:
            baselines.remove_files(c, box.root, [file_id], because=because, now=self._now)
            self._take_out(file_id, because)

    def _take_out(self, file_id: FileId, because: BaselineReason) -> None:
        self._note_former(file_id, because)
        for one in self._find_unresolved(file_id):
            self._end(one, "the file was " + because.value)
        self._is.candidates.pop(file_id, None)
        del self._is.files[file_id]

    @precondition(has_files)
    @rule(numbers=st.lists(_NUMBERS, min_size=1, max_size=3), path=_paths)
    def move(self, numbers: list[int], path: bytes) -> None:
        """Files change places in a circle, or one gets a free name."""
        box = self._box
        ids = list(dict.fromkeys(self._id(number) for number in numbers))
        targets = [self._is.files[file_id].path for file_id in [*ids[1:], ids[0]]]
        if path not in {one.path for one in self._is.files.values()}:
            targets[-1] = path
        with self._changing() as c:
            moved = [
                MovedFile(
                    file_id,
                    roots.ensure_folders(c, box.root.id, [split_path(target)[0]])[split_path(target)[0]],
                    target,
                )
                for file_id, target in zip(ids, targets, strict=True)
            ]
            baselines.move_files(c, box.root, moved, now=self._now)
            for file_id, target in zip(ids, targets, strict=True):
                self._is.files[file_id].path = target
            for file_id, target in zip(ids, targets, strict=True):
                self._follow(file_id, target)

    def _follow(self, file_id: FileId, path: bytes) -> None:
        kinds = {one.kind for one in self._find_unresolved(file_id)}
        for one in self._is.findings.values():
            is_there = one.path == path and one.file_id not in self._is.files and one.state is not FindingState.RESOLVED
            if is_there and one.kind in kinds:
                self._end(one, "another file was moved to this path")
        for found in self._is.findings.values():
            if found.file_id == file_id:
                found.path = path
        for former in self._is.history:
            if former.file_id == file_id:
                former.path = path

    @precondition(lambda self: len(self._is.files) > 1)
    @rule(first=_NUMBERS, second=_NUMBERS)
    def merge(self, first: int, second: int) -> None:
        """A missing file and a new one become one, if they have the same content."""
        box, old_id, new_id = self._box, self._id(first), self._id(second)
        if old_id == new_id:
            return
        old, new = self._is.files[old_id], self._is.files[new_id]
        records = box.get(old_id), box.get(new_id)
        if old.content != new.content:
            with pytest.raises(ValueError, match="different contents"), box.catalog.transaction() as c:
                baselines.merge_moved(c, box.root, *records, self._now)
            return
        if old.reading.blocks != new.reading.blocks:
            return
        with self._changing() as c:
            baselines.merge_moved(c, box.root, *records, self._now)
            for one in self._find_unresolved(new_id):
                self._end(one, "the file was moved here")
            self._is.candidates.pop(new_id, None)
            new = self._is.files.pop(new_id)
            old = self._is.files[old_id]
            old.reading = old.reading._replace(witness=new.reading.witness)
            old.path, old.recorded_at, old.verified_at, old.how = new.path, new.recorded_at, new.verified_at, new.how
            old.is_suspect, old.seen = new.verified_at is None, None
            self._follow(old_id, new.path)

    # Findings

    @rule(number=_NUMBERS, path=st.none() | _paths, kind=_kinds, damaged=st.sampled_from([(), (3,), (3, 9)]))
    def find(self, number: int, path: bytes | None, kind: FindingKind, damaged: tuple[int, ...]) -> None:
        """A job finds something in a file, at a place where none is recorded, or about the root; or finds it again."""
        if path is None and self._is.files:
            path = self._is.files[self._id(number)].path
        self._find(path, kind, damaged)

    @precondition(lambda self: self._is.findings)
    @rule(number=_NUMBERS, damaged=st.sampled_from([(), (3,), (3, 9)]))
    def find_again(self, number: int, damaged: tuple[int, ...]) -> None:
        """What was found once is found again."""
        one = self._finding(number)[1]
        self._find(one.path, one.kind, damaged)

    def _find(self, path: bytes | None, kind: FindingKind, damaged: tuple[int, ...]) -> None:
        file_id = next((file_id for file_id, one in self._is.files.items() if one.path == path), None)
        new = NewFinding(kind, self._box.root.id, file_id, path, "message", blocks=damaged)
        with self._changing() as c:
            found, is_new = findings.open_finding(c, new, now=self._now, run_id=self._box.run_id)
            same = [
                number
                for number, one in self._is.findings.items()
                if (one.kind, one.path) == (kind, path) and one.state is not FindingState.RESOLVED
            ]
            assert is_new == (not same)
            if is_new:
                assert all(found.id > number for number in self._is.findings)
                self._is.findings[found.id] = _Finding(kind, file_id, path, self._now, self._now, damaged)
                return
            one = self._is.findings[same[0]]
            assert found.id == same[0]
            if one.damaged != damaged:
                one.state, one.muted_until = FindingState.OPEN, None
            one.damaged, one.updated_at, one.file_id = damaged, self._now, file_id

    @precondition(lambda self: self._is.findings)
    @rule(number=_NUMBERS, is_muted=st.booleans())
    def hush(self, number: int, is_muted: bool) -> None:
        """A person asks for silence about a finding; of one that is over that changes nothing."""
        finding_id, one = self._finding(number)
        with self._changing() as c:
            if is_muted:
                findings.silence(c, [finding_id], self._now + DAY_S)
            else:
                findings.silence(c, [finding_id])
            if one.state is not FindingState.RESOLVED:
                one = self._is.findings[finding_id]
                one.state = FindingState.MUTED if is_muted else FindingState.ACKNOWLEDGED
                one.muted_until = self._now + DAY_S if is_muted else None

    def _finding(self, number: int) -> tuple[FindingId, _Finding]:
        over = {number for number, one in self._is.findings.items() if one.state is FindingState.RESOLVED}
        numbers = sorted(self._is.findings.keys() - (over if number % 4 else set())) or sorted(over)
        finding_id = numbers[number % len(numbers)]
        return finding_id, self._is.findings[finding_id]

    @precondition(lambda self: self._is.findings)
    @rule(number=_NUMBERS, kinds=st.none() | st.sets(_kinds, min_size=1))
    def resolve(self, number: int, kinds: set[FindingKind] | None) -> None:
        """The findings about a file end, all of them or those of some kinds; or all about no file."""
        file_id = self._finding(number)[1].file_id
        about = {"root_id": self._box.root.id} if file_id is None else {"file_id": file_id}
        with self._changing() as c:
            done = findings.resolve_findings(c, **about, kinds=kinds, resolution="mended", now=self._now)
            ended = [
                number
                for number, one in self._is.findings.items()
                if one.state is not FindingState.RESOLVED
                and (file_id is None or one.file_id == file_id)
                and (kinds is None or one.kind in kinds)
            ]
            assert sorted(ended) == sorted(one.id for one in done)
            for ended_id in ended:
                self._end(self._is.findings[ended_id], "mended")

    def _end(self, one: _Finding, resolution: str) -> None:
        one.state, one.resolution, one.muted_until, one.updated_at = (
            *(FindingState.RESOLVED, resolution),
            *(None, self._now),
        )

    def _find_unresolved(self, file_id: FileId) -> list[_Finding]:
        of_file = (one for one in self._is.findings.values() if one.file_id == file_id)
        return [one for one in of_file if one.state is not FindingState.RESOLVED]

    def _is_frozen(self, file_id: FileId) -> bool:
        return any(one.kind in CONTENT_FINDINGS for one in self._find_unresolved(file_id))

    def _find_suspects(self) -> set[FileId]:
        return {number for number, one in self._is.files.items() if one.is_suspect and not self._is_frozen(number)}

    def _is_uncovered(self, file_id: FileId) -> bool:
        return any(one.kind in CONTENT_FINDINGS | DOUBTS for one in self._find_unresolved(file_id))

    # Candidates

    @precondition(has_files)
    @rule(number=_NUMBERS, reading=_readings, state=st.sampled_from(_WAITING))
    def stage(self, number: int, reading: Reading, state: VersionState) -> None:
        """A run sees other content."""
        box, file_id, reading = self._box, self._id(number), self._read(reading)
        with self._changing() as c:
            edited = BaselineReason.EDITED
            versions.stage_change(c, box.get(file_id), reading, "changed", box.run_id, state, edited)
            self._is.candidates[file_id] = _Candidate(reading, state)

    @precondition(has_files)
    @rule(number=_NUMBERS)
    def stage_removal(self, number: int) -> None:
        """A run does not see a file."""
        file_id = self._id(number)
        with self._changing() as c:
            versions.stage_removal(c, self._box.get(file_id), self._box.run_id)
            self._is.candidates[file_id] = _Candidate(None, VersionState.STAGED)

    @precondition(lambda self: self._is.candidates)
    @rule(number=_NUMBERS, because=st.sampled_from([BaselineReason.EDITED, BaselineReason.ACCEPTED]))
    def promote(self, number: int, because: BaselineReason) -> None:
        """A candidate is taken over, unless an open finding holds the baseline."""
        waiting = sorted(self._is.candidates)
        file_id = waiting[number % len(waiting)]
        with self._changing() as c:
            candidate = versions.get_candidate(c, file_id)
            assert candidate is not None
            is_done = baselines.promote(c, self._box.root, candidate, because, self._now, self._box.boot_id)
            one = self._is.candidates[file_id]
            if one.reading is None:
                assert is_done
                self._take_out_as_seen(file_id, because)
            elif self._is_frozen(file_id) and because not in _DECISIONS:
                assert not is_done
                one.state = VersionState.FROZEN
            else:
                assert is_done
                self._put(file_id, one.reading, because)
                del self._is.candidates[file_id]

    def _take_out_as_seen(self, file_id: FileId, because: BaselineReason) -> None:
        unresolved = self._find_unresolved(file_id)
        self._take_out(file_id, because)
        for one in unresolved:
            of_person = because is BaselineReason.ACCEPTED
            one.resolution = "the loss of the file was accepted" if of_person else "the file was removed: edited"

    @precondition(lambda self: self._is.candidates)
    @rule(is_held=st.booleans())
    def end_run(self, is_held: bool) -> None:
        """What was staged is held back, or dropped."""
        staged = [file_id for file_id, one in self._is.candidates.items() if one.state is VersionState.STAGED]
        with self._changing() as c:
            found = versions.find_staged(c, self._box.root.id)
            assert sorted(staged) == found
            if is_held:
                versions.hold(c, sorted(self._is.candidates))
            else:
                versions.discard_staged(c, sorted(self._is.candidates))
            for file_id in staged:
                if is_held:
                    self._is.candidates[file_id].state = VersionState.HELD
                else:
                    del self._is.candidates[file_id]

    # Copies

    @precondition(lambda self: len(self._copies) < 2)
    @rule(prefix=st.sampled_from(_PREFIXES))
    def know_copy(self, prefix: bytes) -> None:
        """A copy of all files or of a folder is there from now on."""
        name = f"copy {len(self._copies)}"
        with self._box.catalog.transaction() as c:
            self._copies.append(copies.ensure_copy(c, self._box.root.id, prefix, name, "/mnt", None, now=self._now))

    @precondition(lambda self: self._copies and self._is.files)
    @rule(copy=_NUMBERS, number=_NUMBERS, vote=_votes, is_read=st.booleans(), ahead_s=st.sampled_from([0, 0, 10**8]))
    def compare(self, copy: int, number: int, vote: CopyVote, is_read: bool, ahead_s: int) -> None:
        """A file is compared with a copy."""
        file_id, at, copy_id = self._id(number), self._now + ahead_s, self._copies[copy % len(self._copies)].id
        with self._changing() as c:
            one = self._is.files[file_id]
            one.compared[copy_id] = CopyState(file_id, one.version, vote, at, at if is_read else None)
            copies.save_states(c, copy_id, [one.compared[copy_id]])

    # What can be asked

    @invariant()
    def pass_minute(self) -> None:
        """A minute passes; now and then everything is asked, which takes longer than any step."""
        self._now += 60
        self._steps += 1
        if self._steps % _CHECKED_EVERY == 0:
            self.check()

    def check(self) -> None:
        """Everything that can be asked is answered as by the model."""
        with self._box.catalog.read() as c:
            self._check_files(c)
            self._check_places(c)
            self._check_contents(c)
            self._check_history(c)
            self._check_findings(c)
            self._check_candidates(c)
            self._check_coverage(c)
            self._check_waits(c)
            self._check_work(c)

    def _check_files(self, c: Connection) -> None:
        box = self._box
        for file_id, one in self._is.files.items():
            record = files.get_file(c, file_id)
            assert record == files.find_file(c, box.root.id, one.path)
            assert (record.path, record.witness, record.digests) == (
                *(one.path, one.reading.witness),
                one.reading.digests,
            )
            assert (record.version, record.recorded_at, record.reason) == (one.version, one.recorded_at, one.reason)
            assert (record.verified_at, record.read_how, record.is_suspect, record.seen) == (
                *(one.verified_at, one.how),
                *(one.is_suspect, one.seen),
            )
            assert (record.is_frozen, record.boot_id) == (self._is_frozen(file_id), box.boot_id)
            if one.reading.blocks is not None:
                assert one.reading.blocks == blocks.load_blocks(c, file_id, one.version, MIB)
            same = [each.id for each in files.find_by_inode(c, box.root.id, record.witness.inode)]
            assert same == ([file_id] if one.seen is None else [])

    def _check_places(self, c: Connection) -> None:
        box = self._box
        for prefix in _PREFIXES:
            below = {file_id: one for file_id, one in self._is.files.items() if _is_below(one.path, prefix)}
            load = partial(files.page_files, c, box.root.id, prefix=prefix, limit=2)
            pages = _page(lambda after, load=load: load(after=after))  # type: ignore[misc]
            assert list(pages) == [(file_id, one.path, one.size) for file_id, one in sorted(below.items())]
            in_order = [one.path for one in files.find_in_order(c, box.root.id, prefix)]
            assert in_order == sorted((one.path for one in below.values()), key=split_path)
            here = {file_id: split_path(one.path) for file_id, one in self._is.files.items()}
            known = files.find_known(c, box.root.id, prefix)
            assert {name: one.id for name, one in known.items()} == {
                name: file_id for file_id, (folder, name) in here.items() if folder == prefix
            }
            for each in known.values():
                one = self._is.files[each.id]
                marks = int(one.is_suspect), int(self._is_frozen(each.id)), *(one.seen or (None, None))
                assert tuple(each) == (each.id, *one.reading.witness, *marks)

    def _check_contents(self, c: Connection) -> None:
        box = self._box
        readings = [one.reading for one in self._is.files.values()]
        readings += [one._replace(digests=Digests(md5=one.digests.md5)) for one in readings]
        readings += [one._replace(digests=Digests(xxh3_128=one.digests.xxh3_128)) for one in readings]
        contents = [FileContent(one.witness.size_bytes, one.digests, one.blocks) for one in readings]
        found = files.find_by_content(c, box.root.id, contents)
        for reading, same in zip(readings, found, strict=True):
            assert {one.id for one in same} == {
                file_id for file_id, one in self._is.files.items() if _is_same(one.reading, reading)
            }
        for one in self._is.history:
            if one.content[1] is not None:
                deleted = versions.find_deleted(c, box.root.id, Witness(one.content[0], 0, 0, 0), md5=one.content[1])
                assert {(each.file_id, each.path) for each in deleted} == {
                    (each.file_id, each.path)
                    for each in self._is.history
                    if each.because is BaselineReason.DELETED and each.content == one.content
                }

    def _check_history(self, c: Connection) -> None:
        for file_id in {one.file_id for one in self._is.history} | set(self._is.files):
            assert [
                (
                    *(one.path, one.number, (one.witness.size_bytes, one.digests.md5), one.recorded_at),
                    *(one.reason, one.replaced_at, one.replaced_because, one.note),
                )
                for one in versions.former_of(c, self._box.root.id, file_id)
            ] == [astuple(one)[1:] for one in reversed(self._is.history) if one.file_id == file_id]

    def _check_findings(self, c: Connection) -> None:
        root_id = self._box.root.id
        found = findings.find_findings(c, root_id=root_id, include_resolved=True)
        assert {
            one.id: (one.kind, one.path, one.state, one.opened_at, one.updated_at, one.blocks, one.muted_until)
            for one in found
        } == {
            number: (one.kind, one.path, one.state, one.opened_at, one.updated_at, one.damaged, one.muted_until)
            for number, one in self._is.findings.items()
        }
        assert [one.resolution for one in found] == [one.resolution for _, one in sorted(self._is.findings.items())]
        unresolved = [number for number, one in self._is.findings.items() if one.state is not FindingState.RESOLVED]
        assert sorted(unresolved) == [one.id for one in findings.find_findings(c)]
        assert len(unresolved) == findings.count_open(c, root_id)
        since = self._now - DAY_S
        assert [one.id for one in findings.find_findings(c, include_resolved=True, since=since)] == [
            number for number, one in sorted(self._is.findings.items()) if one.updated_at >= since
        ]
        for prefix in _PREFIXES:
            assert [one.id for one in findings.find_findings(c, prefix=prefix)] == [
                number for number in sorted(unresolved) if _is_below(self._is.findings[number].path or b"", prefix)
            ]
        for file_id in self._is.files:
            assert [one.id for one in findings.find_findings(c, file_id=file_id, include_resolved=True)] == [
                number for number, one in sorted(self._is.findings.items()) if one.file_id == file_id
            ]

    def _check_candidates(self, c: Connection) -> None:
        root_id, waiting = self._box.root.id, self._is.candidates
        counts = Counter((one.state, one.reading is None) for one in waiting.values())
        for state in _WAITING:
            assert (counts[state, False], counts[state, True], 0) == versions.count_candidates(c, root_id, state)
        for wanted in _WAITING:
            found = list(versions.find_candidates(c, root_id, wanted))
            assert [one.file_id for one in found] == [
                file_id for file_id, one in sorted(waiting.items()) if one.state == wanted
            ]
            for prefix in _PREFIXES:
                below = [one for one in found if _is_below(one.path, prefix)]
                assert list(versions.find_candidates(c, root_id, wanted, prefix)) == below
            assert all(one.path == self._is.files[one.file_id].path for one in found)
            for one in found:
                reading = waiting[one.file_id].reading
                assert versions.load_version(c, one, one.witness) == (reading and reading._replace(bytes_read=0))

    def _check_coverage(self, c: Connection) -> None:
        now, all_files = self._now, self._is.files
        found = coverage(c, self._box.root.id, now=now, verify_every_s=_MONTH_S)
        covered = {file_id: one for file_id, one in all_files.items() if not self._is_uncovered(file_id)}
        overdue = [one for one in covered.values() if one.find_last_check(now) < now - _MONTH_S]
        never = [one for one in all_files.values() if one.is_never_verified(now)]
        cached = [
            one for one in all_files.values() if not one.is_never_verified(now) and one.how is ReadHow.CACHE_POSSIBLE
        ]
        verified = [
            one
            for one in covered.values()
            if not one.is_never_verified(now) and one.how is not ReadHow.CACHE_POSSIBLE and one not in overdue
        ]
        assert (found.files, found.bytes) == (len(all_files), _sum(all_files.values()))
        assert (found.never_verified_files, found.never_verified_bytes) == (len(never), _sum(never))
        assert (found.overdue_files, found.overdue_bytes) == (len(overdue), _sum(overdue))
        assert found.uncovered_files == len(all_files) - len(covered)
        assert (found.cache_possible_files, found.cache_possible_bytes) == (len(cached), _sum(cached))
        assert found.verified_bytes == _sum(verified)
        assert found.suspects == len(self._find_suspects())
        assert found.oldest_at == min((one.find_last_check(now) for one in covered.values()), default=None)
        for first, before, count, size in found.histogram:
            ages = [one for one in all_files.values() if _is_aged(now - one.find_last_check(now), first, before)]
            assert (len(ages), _sum(ages)) == (count, size)
        days: dict[int, list[_File]] = {}
        for one in covered.values():
            days.setdefault(one.find_last_check(now) // DAY_S, []).append(one)
        assert find_due_days(c, self._box.root.id, now=now) == [
            DueDay(min(one.find_last_check(now) for one in of_day), len(of_day), _sum(of_day))
            for _, of_day in sorted(days.items())
        ]

    def _check_waits(self, c: Connection) -> None:
        now = self._now
        for copy in self._copies:
            wanted = [one for one in self._is.files.values() if _is_below(one.path, copy.prefix)]
            states = [one.compared[copy.id] for one in wanted if copy.id in one.compared]
            times = [one.compared_at for one in states if one.compared_at <= now + _AHEAD_S]
            since = [_find_wait(one, copy, now) for one in wanted]
            same = [one for one in states if one.vote is CopyVote.SAME]
            assert copies.find_waits(c, copy, now=now, verify_every_s=_MONTH_S) == CopyWaits(
                files=len(wanted),
                compared=len(states),
                same=len(same),
                read=sum(one.read_at is not None for one in same),
                silent=sum(one.vote in _SILENT for one in states),
                last_compared_at=max(times, default=None),
                waits_since=min(since, default=None),
                overdue=sum(at < now - _MONTH_S for at in since),
            )

    def _check_work(self, c: Connection) -> None:
        """Ask what a scrub has to verify, and in which order; another few questions each time."""
        for number in range(4):
            prefix, due_days, older_days, never, percent, at_least = _ORDERS[(self._steps + number) % len(_ORDERS)]
            due, older = (days and self._now - days * DAY_S for days in (due_days, older_days))
            order = WorkOrder(
                *(self._box.root.id, prefix, self._now, never, older, due, percent, at_least), bool(number % 2)
            )
            summary = create_worklist(c, order)
            pages = _page(lambda after: page_worklist(c, after, 2))
            wanted = self._list_by_hand(order)
            assert wanted == [record.id for _, record in pages]
            assert summary == (len(wanted), sum(self._is.files[one].size for one in wanted))

    def _list_by_hand(self, order: WorkOrder) -> list[FileId]:
        now = order.now
        below = {number: one for number, one in self._is.files.items() if _is_below(one.path, order.prefix)}
        last = {file_id: one.find_last_check(now) for file_id, one in below.items()}
        unreadable = {
            file_id
            for file_id in below
            if any(one.kind is FindingKind.UNREADABLE for one in self._find_unresolved(file_id))
        }
        due = {file_id for file_id in below if order.due_before_at is not None and last[file_id] < order.due_before_at}
        suspects = self._find_suspects()
        assert len(suspects) <= 20  # few, so they have priority
        early = suspects if order.has_suspects else set()
        chosen = [
            file_id
            for file_id, one in below.items()
            if file_id in early
            or (
                (not order.never_verified_only or one.is_never_verified(now))
                and (order.older_than_at is None or last[file_id] < order.older_than_at)
            )
        ]

        def find_place(file_id: FileId) -> tuple[int, int, FileId]:
            one = below[file_id]
            day = -1 if one.is_never_verified(now) else (one.verified_at or 0) // DAY_S
            return day, one.reading.witness.inode, file_id

        before: dict[FileId, int] = {}  # bytes of files of its sort that come before
        totals = Counter[tuple[bool, bool, bool]]()
        for file_id in sorted(chosen, key=find_place):
            sort = file_id in unreadable, file_id in due, file_id in suspects
            before[file_id] = totals[sort]
            totals[sort] += below[file_id].size

        def key(file_id: FileId) -> tuple[object, ...]:
            turn = (before[file_id], file_id not in suspects) if suspects else ()
            return file_id in unreadable, file_id not in due, turn, find_place(file_id)

        chosen.sort(key=key)
        if order.percent is not None:
            chosen = _cut(chosen, [below[one].size for one in chosen], _sum(below.values()) * order.percent / 100)
        if order.at_least_bytes is not None:
            half = -(-order.at_least_bytes // 2)
            sizes = [min(below[one].size, half) for one in chosen]
            kept = {one for one in chosen if one in due or one in early}
            cut = _cut(chosen, sizes, order.at_least_bytes) if order.at_least_bytes else []
            chosen = [one for one in chosen if one in kept or one in cut]
        return chosen


def _cut(ids: list[FileId], sizes: list[int], wanted: float) -> list[FileId]:
    """Return the first of them that have so many bytes together."""
    total = 0
    for count, size in enumerate(sizes, 1):
        total += size
        if total >= wanted:
            return ids[:count]
    return ids


def _page(load: Callable[[int], list[_Row]]) -> Iterator[_Row]:
    after: Any = 0
    while page := load(after):
        assert len(page) <= 2
        yield from page
        after = page[-1][0]


def _is_below(path: bytes, prefix: bytes) -> bool:
    return not prefix or (path + b"/").startswith(prefix + b"/")


def _is_same(one: Reading, other: Reading) -> bool:
    """Return whether a file has the content that is looked for: by whichever digest is known, else by its blocks."""
    if one.witness.size_bytes != other.witness.size_bytes:
        return False
    if any(digests := (other.digests.md5, other.digests.xxh3_128)):
        own = one.digests.md5, one.digests.xxh3_128
        return any(a == b for a, b in zip(own, digests, strict=True) if a and b)
    return one.blocks is not None and other.blocks is not None and one.blocks.xxh3_128 == other.blocks.xxh3_128


def _sum(some: Iterable[_File]) -> int:
    return sum(one.size for one in some)


def _is_aged(age_s: int, first_day: int, before_day: int | None) -> bool:
    is_old = age_s >= first_day * DAY_S or first_day == 0
    return is_old and (before_day is None or age_s < before_day * DAY_S)


def _find_wait(one: _File, copy: CopyRecord, now: int) -> int:
    """Return since when a file waits to be compared with a copy."""
    state = one.compared.get(copy.id)
    if state is not None and state.compared_at <= now + _AHEAD_S:
        return state.compared_at
    return max(one.recorded_at, copy.created_at)
