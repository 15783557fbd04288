"""
Compare one root, or a part of it, with one copy.

The copy is listed as a whole first. Then each recorded file is compared; files whose copy was not read for longest come
first, so that an interrupted comparison continues where it stopped (R7). Matches are recorded here; the rest goes to
the arbiter.

I1  Each recorded name is counted exactly once (R8). A file that could not be compared is never counted as verified.
I2  The cheapest evidence that covers the content is used: digests the copy states; digests computed remotely; its
    bytes. Size and time alone are no evidence.
I3  An unreachable copy leaves everything as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from integrity import program
from integrity.arbitration import KINDS_OF_VOTES, CopyVote, Level
from integrity.catalog import baselines, copies, copy_listing
from integrity.catalog.baselines import Verified
from integrity.catalog.copies import CopyFound, CopyRecord, CopyState, new_found, new_state
from integrity.catalog.copy_listing import CompareRow, digest_stated
from integrity.catalog.rows import FileRecord
from integrity.config.copy_urls import keeps_versions
from integrity.copies.protocol import Copy, LocalFolder
from integrity.copies.spans import find_spans
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted
from integrity.files.excludes import make_left_out
from integrity.files.span import ReadMode
from integrity.jobs import messages
from integrity.jobs.batching import Commits, iterate_files
from integrity.jobs.byte_pattern import describe_difference
from integrity.jobs.compare.arbiter import CopyArbiter
from integrity.jobs.compare.byte_difference import MOST_COMPARED_BYTES, find_byte_difference
from integrity.jobs.compare.circumstances import CopyTimes, find_digest
from integrity.jobs.compare.copy_answer import CopyAnswer
from integrity.jobs.compare.copy_habit import CopyHabit
from integrity.jobs.compare.disagreement import Disagreement
from integrity.jobs.compare.evidence import CopyEvidence, EvidenceCount
from integrity.jobs.compare.known_copy import drop_states, find_known, refuse_unfit, remember, resolve_unreachable
from integrity.jobs.compare.listing import CopyListing, FolderExcludes, find_algorithms
from integrity.jobs.compare.local_digests import EarlyMatches, LocalPass
from integrity.jobs.compare.own_witness import OwnWitnesses
from integrity.jobs.compare.read_back import choose_left_out, read_from_copy
from integrity.jobs.compare.read_folder import TreeReading
from integrity.jobs.compare.recheck import FileCheck
from integrity.jobs.compare.renamed import RenamedFiles
from integrity.jobs.compare.shared_extents import find_shared
from integrity.jobs.compare.source import CopySource
from integrity.jobs.context import RunLimit
from integrity.jobs.judge.content_diff import block_ranges
from integrity.jobs.options import CompareOptions
from integrity.jobs.report import Compared, NoteKind
from integrity.kinds import ENDED_BY_COMPARE
from integrity.model import FileId, FindingKind, Reading, Tally, Witness
from integrity.paths import shell_word

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_PAGE = 1000
_REMEMBERED_TIMES = 1000
_DECIDED_AT_ONCE = 1000
_UNDECIDED_AT_MOST = 10_000  # while the habit of the copy is not known; bounds memory
_SHOWN_FILES, _SHOWN_BYTES = 100, 256 << 20  # of which people are told what their bytes show
_READINGS = 50  # files whose first reading by a backup program is looked for
_UNDECIDED_BYTES = 1 << 30
"""Decide earlier at this many bytes that may have to be read here, to keep to the limits."""


def compare_root(
    run: RootRun, source: CopySource, options: CompareOptions, compared: Compared, *, began_at: float
) -> None:
    """
    Compare a run's part of its root with a copy, and record the result.

    ``compared`` is updated in place. Limits count from ``began_at``, the start of the command on the monotonic clock.

    Raises:
        CopyUnreachable: the copy can't be reached, is not configured and was never compared. For other copies an
            unreachable copy is a finding.
        ConfigError: the options do not fit this copy.
    """
    if not options.read and options.read_percent is None:
        options = options._replace(read_percent=source.read_percent)
    until = None if options.time_limit_s is None else began_at + options.time_limit_s
    limit = RunLimit(run, until=until, until_bytes=options.byte_limit)
    try:
        base = _find_base(run, source)
        excludes = FolderExcludes(run.excludes, base) if base else run.excludes
        # Also stop for ``rest``: another job may be waiting for the root.
        with source.open(excludes, lambda: run.context.stop.is_set() or run.context.preempted.is_set()) as copy:
            refuse_unfit(run, copy, base, options)
            compared.can_read = copy.has_bytes
            found = find_known(run, source, copy, base)
            is_other = found.record is None and bool(found.others)
            early = find_algorithms(run, copy, base)
            reads = copy.reads_all_at_once and (options.read or options.read_percent is not None)
            left_out = make_left_out(source.exclude)
            before = _find_read_before(run, found.record) if reads else ()
            listing = CopyListing(
                *(run, copy, base),
                is_other=is_other,
                left_out=left_out,
                reads=reads,
                limit=limit,
                read_before=before,
            )
            listing.read()  # refuse what does not look like a copy before it is recorded as one
            known = remember(run, source, copy, base, found)
            compared.copy = known.name
            if is_other:
                run.note(NoteKind.WARNING, None, messages.another_disk(copy.shown, known.name))
            if not run.context.stop.is_set():
                resolve_unreachable(run, {known.name, source.name})
            Comparer(run, known, copy, listing, options, compared, limit, behind_s=source.behind_s, early=early).run()
    except ReadInterrupted:
        run.counts.add(Tally.NOT_DUE, sum(1 for _ in iterate_files(run)) - run.counts.known)
    except CopyUnreachable as error:
        with run.catalog.read() as connection:
            compared_once = copies.find_copies(connection, run.root.id)
        is_known = (source.name, _find_base(run, source)) in ((one.base_name, one.prefix) for one in compared_once)
        if not is_known and source.verify_every_s is None:
            raise
        run.is_incomplete = compared.is_unreachable = True
        run.counts.add(Tally.NOT_DUE, sum(1 for _ in iterate_files(run)) - run.counts.known)
        with run.writing() as connection:
            text = messages.unreachable(str(error), compared.published + compared.read)
            command = program.stored_command("compare", source.base, "--with", shell_word(source.name))
            step = "mount its disk, start its server or correct its address, then compare"
            run.open_finding(
                connection, FindingKind.COPY_UNREADABLE, text, copy=source.name, step=step, command=command
            )


def _find_read_before(run: RootRun, known: CopyRecord | None) -> Collection[bytes]:
    """Return the folders that an interrupted run has read since the last one that came to its end (R7)."""
    if known is None:
        return ()
    with run.catalog.read() as connection:
        return choose_left_out(copies.find_read_folders(connection, known, run.prefix))


def _find_base(run: RootRun, source: CopySource) -> bytes:
    """Return the folder in the root that is copied; empty for the root itself."""
    return source.base[len(run.root.path.rstrip(b"/")) + 1 :]


class Comparer:
    """
    Compare recorded files with an open copy.

    Args:
        known: record of the copy.
        copy: entered.
        listing: already read.
        compared: counts; updated in place.
        behind_s: how far the backup may lag behind.
        early: files that were read before.
    """

    def __init__(
        self,
        run: RootRun,
        known: CopyRecord,
        copy: Copy,
        listing: CopyListing,
        options: CompareOptions,
        compared: Compared,
        limit: RunLimit,
        *,
        behind_s: int,
        early: EarlyMatches,
    ) -> None:
        self._run = run
        self._known = known
        self._copy = copy
        self._options = options
        self._compared = compared
        self._limit = limit
        self._listing = listing
        self._early = early
        self._evidence = EvidenceCount(compared)
        self._shared = find_shared(run, copy, listing.find_place)
        self._mode = ReadMode.RECORD if options.cached else ReadMode.DISK
        self._check = FileCheck(run, self._evidence.read_here, mode=self._mode)
        self._has_ctime = copy.folder is not None and copy.folder.has_ctime
        self._has_inodes = copy.folder is not None and copy.folder.has_stable_inodes
        self._habit = CopyHabit(keeps_times=copy.keeps_times)
        self._times_before = dict[FileId, int]()
        with run.catalog.read() as connection:
            for file_id, here_ns, there_ns in copies.find_equal_times(connection, known.id, _REMEMBERED_TIMES):
                self._times_before[file_id] = there_ns
                if not run.is_whole:  # a part may have too few equal files to learn from
                    self._habit.add(here_ns, there_ns)
        self._own_witnesses = OwnWitnesses(run, copy, listing.find_place)
        self._renamed = RenamedFiles(run, copy, listing, reads=options.read or copy.folder is not None)
        self._arbiter = CopyArbiter(
            *(run, known.id, compared, self._check, self._evidence, self._habit),
            has_bytes=copy.has_bytes,
            keeps_versions=keeps_versions(copy.url),
            has_ctime=self._has_ctime,
            show_bytes=self._show_bytes,
            find_reading=self._find_reading,
            find_own_witness=self._own_witnesses.find,
            find_spelling=lambda path: listing.find_spelling(path) or path,
            find_elsewhere=self._renamed.find_lost,
            behind_s=behind_s,
        )
        self._readings_left = _READINGS
        self._shown_files_left, self._shown_bytes_left = _SHOWN_FILES, _SHOWN_BYTES
        self._states: list[CopyState] = []
        self._same: list[FileId] = []
        self._disagreements: list[Disagreement] = []
        self._undecided: list[Disagreement] = []  # whose files were read, while the habit of the copy is not known
        self._unread: list[Disagreement] = []  # whose copies are good, and which must be read here
        self._undecided_bytes = 0
        self._matched: list[FileRecord] = []
        self._left_out: list[FileRecord] = []
        self._verified: list[Verified] = []
        self._commits = Commits(run.context.monotonic, waiting=self._count_waiting, write=self._write)
        self._files = self._bytes = self._done = 0

    def run(self) -> None:
        """Compare each file, decide disagreements, and record the result for the copy as a whole."""
        with closing(self._own_witnesses):
            self._compare()

    def _compare(self) -> None:
        run = self._run
        if self._listing.was_read and not self._options.read:
            self._take_all_same()
        with run.catalog.snapshot() as connection:
            where, after = (self._known.id, run.root.id, run.prefix), self._options.after
            self._files, self._bytes = copy_listing.order_files(connection, *where, after)
            left_out = 0 if after is None else copy_listing.count_compared(connection, *where, after)
            if self._listing.was_cut:
                copy_listing.keep_listed(connection)
        if self._listing.was_cut or not run.context.stop.is_set():
            try:
                self._query_all()
            except CopyUnreachable:
                self._commit()  # answers received so far stand
                raise
            except ReadInterrupted:
                pass  # stopped while waiting for the copy
            self._commit()
        run.counts.add(Tally.NOT_DUE, self._files - run.counts.known + left_out)
        self._end()

    def _commit(self) -> None:
        self._decide_disagreements(is_end=True)
        self._commits.write()

    def _show_bytes(self, record: FileRecord, answer: CopyAnswer) -> str:
        """Return what the bytes of both sides show; empty beyond the limits, and of a copy that was not read."""
        if answer.level is Level.PUBLISHED:
            return ""
        size_bytes = min(record.witness.size_bytes, MOST_COMPARED_BYTES)
        if not (self._copy.has_bytes and self._shown_files_left) or size_bytes > self._shown_bytes_left:
            return ""
        self._shown_files_left -= 1
        self._shown_bytes_left -= size_bytes
        is_placed = bool(answer.bad_blocks) and answer.size_bytes == record.witness.size_bytes
        ranges = block_ranges(record, answer.bad_blocks) if is_placed else None
        reader, place = self._run.reader(ReadMode.DISK), self._listing.find_place(record.path)
        stop, pace = self._run.context.stop, self._run.pace
        try:
            difference = find_byte_difference(reader, record.path, self._copy, place, ranges, stop=stop, pace=pace)
        except (ReadError, CopyUnreachable):
            return ""  # what was decided stands; it is only told without this
        return messages.seen_in_data(describe_difference(difference))

    def _find_reading(self, record: FileRecord, answer: CopyAnswer) -> int | None:
        """
        Return when a backup program read what a copy has of a file, before any other content of the same size and time.

        None if it did not, if it can't tell, and beyond the limit.
        """
        newest = next(self._copy.versions(), None)
        if newest is None or not self._readings_left or answer.size_bytes != record.witness.size_bytes:
            return None
        self._readings_left -= 1
        place = self._listing.find_place(record.path)
        try:
            spans = list(find_spans(self._copy, [place]))
            first = next(one for one in reversed(spans) if one[1:] == spans[0][1:])
            if not self._copy.is_reading(first.versions[0]):
                return None
            if first is not spans[0]:
                self._copy.choose(first.versions[0])
                reading = read_from_copy(self._copy, place, 1 << 20, pace=self._run.pace, stop=self._run.context.stop)
                if reading.digests.xxh3_128 != find_digest(answer):
                    return None
            return first.versions[0].taken_at
        except (ReadError, CopyUnreachable):
            return None  # what is known decides
        finally:
            self._copy.choose(newest)

    def _query_all(self) -> None:
        """Get an answer for every file: read a mounted copy with many threads, query other copies file by file."""
        evidence = CopyEvidence(
            self._run,
            self._copy,
            self._listing,
            self._options,
            self._compared,
            self._bytes,
            limit=self._limit,
            renamed=self._renamed,
            take=self._take,
            verify=self._verify,
        )
        if self._copy.folder is not None:
            self._read_tree(self._copy.folder, evidence)
            return
        requests = evidence.query_all(self._rows())
        if self._run.context.stop.is_set():
            deque(requests, 0)  # files that must be read here wait for the next run
            return
        local = LocalPass(self._run, has_etags=self._copy.has_details, early=self._early)
        for stated, match in local.match(requests, tick=self._tick):
            evidence.take_match(stated, match)
        evidence.finish()

    def _tick(self) -> None:
        """Write pending rows and report progress, also while a large file is being read."""
        self._commits.write_if_due()
        self._report_progress(self._run.counts.bytes_read)

    def _read_tree(self, folder: LocalFolder, evidence: CopyEvidence) -> None:
        reading = TreeReading(
            *(self._run, self._known, folder, self._copy.shown, self._listing, evidence, self._limit),
            take=self._take,
            take_same=self._take_same,
            mode=self._mode,
            shared=self._shared,
        )
        reading.read(self._rows(), self._commits, tell=self._report_progress)

    def _rows(self) -> Iterator[CompareRow]:
        """Iterate over the recorded files in comparison order, until a limit is reached."""
        after = 0
        while not self._is_over:
            with self._run.catalog.read() as connection:
                page = copy_listing.page_files(connection, self._known.id, after, _PAGE)
            if not page:
                return
            after = page[-1].seq
            for row in page:
                if self._is_over:
                    return
                waiting = len(self._disagreements) + len(self._unread)
                if waiting >= _DECIDED_AT_ONCE or self._undecided_bytes > _UNDECIDED_BYTES:
                    self._decide_disagreements()
                if row.listed is None and not self._is_expected(row.record.path):
                    self._run.counts.add(Tally.SKIPPED)
                    self._done += 1
                elif row.listed is None and self._listing.is_left_out(row.record.path):
                    self._leave_out(row.record)
                else:
                    yield row

    @property
    def _is_over(self) -> bool:
        """Whether no more files are to be compared; what was read before the limit was reached is."""
        return self._limit.is_set() and not self._listing.was_cut

    def _leave_out(self, record: FileRecord) -> None:
        """Count a file that the backup leaves out on purpose, and forget what the copy said of it before."""
        self._run.counts.add(Tally.SKIPPED)
        self._compared.left_out += 1
        self._done += 1
        self._left_out.append(record)
        if self._copy.folder is None:
            self._commits.write_if_due()

    def _is_expected(self, path: bytes) -> bool:
        """Return whether the copy should list a file; not one that is recorded since before it was excluded."""
        return not self._run.excludes.covers(path) and self._copy.is_expected(self._listing.place(path))

    def _take(self, row: CompareRow, answer: CopyAnswer | None) -> None:
        """Record the copy's answer for a file; None if the copy was not queried."""
        run, record = self._run, row.record
        self._done += 1
        if self._copy.folder is None:
            self._commits.write_if_due()
            self._report_progress(run.counts.bytes_read)
        if answer is None:
            run.counts.add(Tally.NOT_DUE)
            return
        times = self._find_times(row, answer)
        taken = Disagreement(record, answer, self._make_state(row, answer, times), times)
        if answer.vote is CopyVote.SAME:
            self._habit.add(record.witness.mtime_ns, times.mtime_ns)
            self._habit.add_before(self._times_before.get(record.id), times.mtime_ns)
        if answer.vote is not CopyVote.SAME or record.path in self._arbiter.open_about_file:
            self._disagreements.append(taken)
        elif (record.is_suspect or self._options.read) and record.id not in self._evidence.read_here:
            self._unread.append(taken)
        else:
            self._settle(taken)
            return
        self._undecided_bytes += record.witness.size_bytes

    def _find_times(self, row: CompareRow, answer: CopyAnswer) -> CopyTimes:
        """Return the times of a copy: those that it had when it was read, or else those that were listed."""
        seen, listed = answer.witness, row.listed
        if seen is not None:
            ctime_ns = seen.ctime_ns if self._has_ctime else None
            return CopyTimes(seen.mtime_ns, ctime_ns, seen.inode if self._has_inodes else None)
        return CopyTimes(None, None, None) if listed is None else CopyTimes(listed.mtime_ns, None, listed.inode)

    def _take_same(self, rows: Sequence[CompareRow], stamps: Iterable[tuple[int, ...]]) -> None:
        """
        Record that the copies of small files have the recorded content; of the files here, most need no look.

        ``stamps`` are those of the copies.
        """
        level = Level.CACHED if self._options.cached else Level.READ
        now, arbiter, learn = self._run.now(), self._arbiter, self._habit.add
        is_read, has_ctime, has_inodes = self._options.read, self._has_ctime, self._has_inodes
        about_file, about_copy = arbiter.open_about_file, arbiter.open_about_copy
        spell, before = self._listing.find_spelling, self._times_before
        records: list[FileRecord] = []
        for row, (size, mtime, ctime, inode) in zip(rows, stamps, strict=True):
            record = row.record
            path = record.path
            if is_read or record.is_suspect or path in about_file or path in about_copy:
                witness = Witness(size, mtime, ctime, inode)
                self._take(row, CopyAnswer(CopyVote.SAME, level, size_bytes=size, witness=witness))
                continue
            version = record.version
            learn(record.witness.mtime_ns, mtime)
            if record.id in before:
                self._habit.add_before(before[record.id], mtime)
            found = new_found(
                (
                    version,
                    None,
                    None,
                    now,
                    mtime,
                    ctime if has_ctime else None,
                    inode if has_inodes else None,
                    spell(path),
                    None,
                )
            )
            read_at = now if level is Level.READ else row.read_at
            self._states.append(new_state((record.id, version, CopyVote.SAME, now, read_at, None, found)))
            records.append(record)
        self._done += len(records)
        self._run.counts.add(Tally.VERIFIED, len(records))
        self._evidence.add_copies(level, len(records))
        self._evidence.add_files(records)

    def _take_all_same(self) -> None:
        """Take the files that the copy has as recorded, by what was read of it, many at a time, without a look here."""
        run, habit, before, after = self._run, self._habit, self._times_before, 0
        with run.catalog.snapshot() as connection:
            opened = self._arbiter.open_about_file | self._arbiter.open_about_copy
            copy_listing.leave_alone(connection, run.root.id, opened)
        while True:
            with run.catalog.read() as connection:
                where = self._known.id, after, _PAGE
                page = copy_listing.find_same(connection, *where, not_since=self._options.after)
            if not page:
                break
            after = page[-1][0]
            for file_id, recorded_ns, there_ns, _ in page:
                habit.add(recorded_ns, there_ns)
                habit.add_before(before.get(file_id), there_ns)
            self._same += [one[0] for one in page]
            self._done += len(page)
            run.counts.add(Tally.VERIFIED, len(page))
            self._evidence.add_copies(Level.READ, len(page))
            self._evidence.add_known([read_at for *_, read_at in page])
            self._tick()
        self._commits.write()

    def _settle(self, taken: Disagreement) -> None:
        """Record that the copy is good, and that nothing speaks against the file."""
        record, answer, state = taken.record, taken.answer, taken.state
        if state is not None:
            self._states.append(state)
        self._run.counts.add(Tally.VERIFIED)
        self._evidence.add_copies(answer.level)
        self._evidence.add_files([record])
        if self._arbiter.is_open(record.path):
            self._matched.append(record)

    def _make_state(self, row: CompareRow, answer: CopyAnswer, times: CopyTimes) -> CopyState | None:
        """Return the state to save for an answer; None to keep an earlier reading that proves more."""
        record, now = row.record, self._run.now()
        if answer.wants_read and row.read_at is not None:
            return None
        read_at = None
        if answer.level is Level.READ:
            read_at = now
        elif answer.vote is CopyVote.SAME or (row.was_found_bad and answer.vote is CopyVote.UNREADABLE):
            read_at = row.read_at
        stated = digest_stated(row.listed) if answer.is_proven and row.listed is not None else None
        found = None
        if answer.vote is CopyVote.SAME:
            found = CopyFound(record.version, None, None, now, *times, self._listing.find_spelling(record.path))
        elif answer.found_as is not None:
            found = CopyFound(record.version, None, None, now, None, None, None, answer.found_as)
        return CopyState(record.id, record.version, answer.vote, now, read_at, stated, found)

    def _verify(self, record: FileRecord, reading: Reading) -> None:
        """Mark a file as verified that was read here for its copy's sake and is what was recorded."""
        self._evidence.read_here.add(record.id)
        if record.path not in self._arbiter.open_about_file:
            witness = reading.witness if reading.witness != record.witness else None
            self._verified.append(Verified(record, witness, reading.how))

    def _decide_disagreements(self, *, is_end: bool = False) -> None:
        """Read the files here that must be read; decide once the habit of the copy is known, or at the end."""
        unread, self._unread = self._unread, []
        self._run.holds_findings = True  # of a file that is damaged here, it is said at once what the copy has
        if unread:
            self._check.check([one.record for one in unread])
        disagreements, self._disagreements, self._undecided_bytes = self._disagreements, [], 0
        for one in unread:
            if one.record.id in self._check.intact:
                self._settle(one)
            else:
                disagreements.append(one)
        self._arbiter.read_files(disagreements)
        self._undecided += disagreements
        if is_end or self._habit.is_known or len(self._undecided) >= _UNDECIDED_AT_MOST:
            undecided, self._undecided = self._undecided, []
            self._arbiter.decide(undecided)
            self._run.holds_findings = False

    def _count_waiting(self) -> int:
        return len(self._states) + len(self._same) + len(self._verified) + len(self._left_out)

    def _write(self) -> None:
        run = self._run
        with run.writing() as connection:
            copies.save_states(connection, self._known.id, self._states)
            copy_listing.save_same(connection, self._known.id, self._same, run.now())
            for record in self._matched:
                self._arbiter.end(connection, record)
            copies.drop_states(connection, self._known.id, [record.id for record in self._left_out])
            for record in self._left_out:
                if self._arbiter.is_open(record.path):
                    self._arbiter.end(connection, record, messages.LEFT_OUT_OF_COPY)
            if self._verified:
                boot_id = run.boot_id
                baselines.mark_verified(connection, self._verified, now=run.now(), boot_id=boot_id)
        self._states, self._same, self._matched, self._verified, self._left_out = [], [], [], [], []

    def _report_progress(self, bytes_done: int) -> None:
        self._run.progress("compare", self._done, bytes_done, files=self._files, size=self._bytes)

    def _end(self) -> None:
        """Record the results for the copy as a whole."""
        run = self._run
        self._compared.extra += 0 if self._listing.was_cut else self._listing.report_extra()
        if self._shared is not None and self._shared.count:
            self._compared.shared += self._shared.count
            run.note(NoteKind.WARNING, None, messages.shared(self._copy.shown, self._shared.count, self._done))
        is_part = len(run.prefix) > len(self._known.prefix)
        is_whole = not (is_part or self._listing.was_cut or run.context.stop.is_set())
        self._arbiter.finish(self._find_over() if is_whole and not self._limit.is_set() else frozenset())
        if is_whole:
            drop_states(run, self._known, are_gone=True)
            with run.writing() as connection:
                copies.set_listed(connection, self._known.id, run.now())

    def _find_over(self) -> frozenset[FindingKind]:
        """Return the kinds of copy-wide finding that this run may replace or resolve."""
        kinds = ENDED_BY_COMPARE | {FindingKind.COPY_NOT_COMPARABLE}
        if self._options.after is None and self._options.read_percent is None:
            return kinds
        with self._run.catalog.read() as connection:  # for files that this run did not query, the last answer holds
            votes = copies.find_votes(connection, self._known.id)
        return kinds.difference(*(KINDS_OF_VOTES[vote] for vote in votes if vote in KINDS_OF_VOTES))
