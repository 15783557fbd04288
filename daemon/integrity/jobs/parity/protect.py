"""
Make the parity sets of a root, renew those that are stale or damaged, and read them all from time to time.

I1  A set counts only if each of its files had the recorded content, and was not written to, while it was made.
I2  A set that has the content of a file with an open finding is neither made anew nor deleted. A suspended root has no
    run, so its sets are left alone.
I3  A set goes only when each recorded content that it has is in an intact newer one, which was read back.
I4  Without its folder, or on a full disk, no set is made, and no record of one is dropped.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog import files, parity
from integrity.catalog.baselines import mark_suspects
from integrity.catalog.parity import Candidate, ParityFile, ParitySet, SetUse
from integrity.copies.parity.copy import clear_healing
from integrity.copies.parity.packets import SetContents, condense, read_set
from integrity.copies.parity.program import Par2, find_par2
from integrity.errors import ConfigError, ReadInterrupted, show_path
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs.parity.grouping import MOST_BYTES, MOST_FILES, SetPlan, find_class, group_files, plan_set
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import is_inside
from integrity.model import FileId, Tally
from integrity.paths import shell_path
from integrity.units import format_size

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.roots import RootRecord
    from integrity.config import RootSettings
    from integrity.jobs.context import RootRun
    from integrity.model import RootId

RESTED_S = 7 * 86_400
"""The service protects only what has not changed for so long: what is edited daily would be stale the next day."""

_RENEW_SHARE = 4
"""A set is renewed when this part of its parity is stale, long before half of it is."""

_SPARE_BYTES = 64 << 20  # is left free on the disk
_ENDING = b".par2"
_MAKING = b".making-"


class ProtectOptions(NamedTuple):
    """
    What to protect, and where.

    Args:
        percent: size of the parity, of that of the files; 0: as the root is configured.
        folder: for the sets; empty: as the root is configured.
        rested_s: only files that were verified since they were recorded, this long ago; None: all.
    """

    percent: float = 0.0
    folder: bytes = b""
    rested_s: int | None = None

    def complete(self, c: Connection, root: RootRecord, settings: RootSettings) -> ProtectOptions:
        """
        Return the options with what is configured of the root; not configured, with those of the sets that it has.

        Raises:
            ConfigError: it is not said where the sets go, or that folder is not there.
        """
        sets = [one.set for one in parity.find_sets(c, root.id)]
        last = max(sets, key=lambda one: one.id, default=None)
        folder = self.folder or settings.parity_folder or (last and os.path.dirname(os.path.dirname(last.path)))
        if not folder:
            raise ConfigError(
                f"{show_path(root.path)}: name a folder for its parity, best on another disk: --folder DIR, or"
                " parity_folder in the configuration"
            )
        folder = os.path.realpath(folder)
        if is_inside(folder, root.path.rstrip(b"/")) and folder != os.path.realpath(settings.parity_folder or b"/"):
            raise ConfigError(
                f"{show_path(folder)}: lies in {show_path(root.path)}, so the parity would be recorded as its files;"
                " configure it as parity_folder, or choose another folder"
            )
        if not os.path.isdir(folder):
            raise ConfigError(
                f"{show_path(folder)}: is not there, so no parity can be made; mount its disk, or make it"
            )
        percent = self.percent or settings.parity_percent or _find_percent(sets) or DEFAULT_PERCENT
        return self._replace(percent=percent, folder=folder)

    def spell_command(self, *paths: bytes) -> str:
        """Return the command that protects paths with these options."""
        words: list[str | bytes] = []
        if self.folder:
            words += ["--folder", self.folder]
        if self.percent:
            words += ["--parity", f"{self.percent:g}%"]
        return program.command("protect", *paths, *words)


DEFAULT_PERCENT = 5.0
_TELLING_SLICES = 100  # of fewer, one slice of parity is more than a percent


def _find_percent(sets: Sequence[ParitySet]) -> float:
    """Return how much parity was asked for when sets were made; 0 if they are too small to tell."""
    largest = max(sets, key=lambda one: one.source_slices, default=None)
    if largest is None or largest.source_slices < _TELLING_SLICES:
        return 0.0
    return float(max(1, round(100 * (largest.recovery_slices - 0.5) / largest.source_slices)))


@dataclass(slots=True)
class ProtectReport:
    """What a run made: sets, their files and sizes; ``is_full``: the disk had no room for more."""

    sets: int = 0
    files: int = 0
    size_bytes: int = 0
    parity_bytes: int = 0
    checked: int = 0
    damaged: int = 0
    removed: int = 0
    is_full: bool = False
    left: list[bytes] = field(default_factory=list)  # absolute; changed meanwhile, or not what was recorded


class ProtectPlan(NamedTuple):
    """What a run would make."""

    sets: int
    files: int
    size_bytes: int
    parity_bytes: int
    room_bytes: int  # that must be free: a set is there twice while it is made, and not all of a disk is taken


def find_folder(folder: bytes, root: bytes) -> bytes:
    """Return the folder of the sets of a root in the one for all."""
    name = os.path.basename(root) or b"root"
    return os.path.join(folder, name[:200] + b"-" + sha256(root).hexdigest()[:8].encode())


def make_plan(c: Connection, root_id: RootId, prefix: bytes, percent: float) -> ProtectPlan:
    """Return what is to be made in a part of a root, or in all of it, of files that may be young."""
    leaving = find_leaving(c, root_id, prefix, rested_at=None)
    found = parity.find_candidates(c, root_id, prefix, rested_at=None, leaving=leaving)
    plans = [plan_set(group, percent) for group in group_files(found)]
    return ProtectPlan(
        len(plans),
        sum(len(plan.files) for plan in plans),
        sum(plan.bytes for plan in plans),
        sum(plan.parity_bytes for plan in plans),
        sum(plan.parity_bytes for plan in plans) + max((plan.parity_bytes for plan in plans), default=0) + _SPARE_BYTES,
    )


def find_leaving(c: Connection, root_id: RootId, prefix: bytes, *, rested_at: int | None) -> set[int]:
    """Return the sets that are made anew; those that only grow, only with all of a root."""
    sets = parity.find_sets(c, root_id)
    leaving = {one.set.id for one in sets if _must_leave(one)}
    return leaving if prefix or not sets else leaving | _find_small(c, root_id, sets, leaving, rested_at)


def _must_leave(one: SetUse) -> bool:
    """Return whether a set is to be made anew: damaged or stale, and not needed as it is (I2)."""
    is_stale = one.stale_slices * _RENEW_SHARE >= one.set.recovery_slices
    return not one.is_held and (one.set.is_damaged or (one.stale_slices > 0 and is_stale))


def _find_small(
    c: Connection, root_id: RootId, sets: Sequence[SetUse], leaving: set[int], rested_at: int | None
) -> set[int]:
    """
    Return half-empty sets that new files of the same size may join: not larger than all that joins them.

    So each file is read again only when the set that it is in doubles.
    """
    new: dict[int, int] = {}
    for one in parity.find_candidates(c, root_id, b"", rested_at=rested_at, leaving=leaving):
        of = find_class(one.size_bytes)
        new[of] = new.get(of, 0) + one.size_bytes
    found = set()
    for use in sorted(sets, key=lambda use: use.bytes):
        if use.set.id in leaving or use.is_held or not use.files:
            continue
        of = find_class(use.bytes // use.files)
        is_small = use.files < MOST_FILES // 2 and use.bytes < MOST_BYTES // 2
        if is_small and use.bytes <= new.get(of, 0):
            new[of] += use.bytes
            found.add(use.set.id)
    return found


class Protector:
    """
    Protect a root, or a part of it.

    Args:
        options: completed.
        report: gets what was made.
    """

    def __init__(self, run: RootRun, options: ProtectOptions, report: ProtectReport) -> None:
        self._run = run
        self._options = options
        self._report = report
        self._folder = find_folder(options.folder, run.root.path)
        self._base = run.root.path.rstrip(b"/") + b"/"
        self._rested_at = None if options.rested_s is None else run.now() - options.rested_s

    def run(self) -> None:
        """Protect what is not protected, until the job is asked to stop."""
        find_par2()
        try:
            if self._find_sets():
                with suppress(ReadInterrupted):
                    self._check_sets()
                    self._make_sets()
                self._remove_spare()
        except OSError as error:
            raise ConfigError(
                f"{show_path(self._folder)}: can't be used for parity: {error.strerror}; let the user that makes it"
                " write there, or look at its disk"
            ) from error

    def _find_sets(self) -> bool:
        """Make the folder, and compare it with the catalog; return False if its disk is absent (I4)."""
        run = self._run
        with run.catalog.read() as connection:
            known = {one.set.path: one.set for one in parity.find_sets(connection, run.root.id)}
        known = self._follow(known)
        for away in sorted({folder for path in known if not os.path.isdir(folder := os.path.dirname(path))}):
            run.is_incomplete = True
            self._warn(
                f"its parity in {show_path(away)} is not there: mount its disk; or, if it is lost, make this folder"
                f" anew, so that what was in it is protected again: mkdir -p {shell_path(away)}"
            )
            if away == self._folder:
                return False
        if not os.path.isdir(self._folder):
            os.mkdir(self._folder, 0o700)
            self._give_away(self._folder)
        if os.stat(self._folder).st_dev == os.fstat(run.root_fd).st_dev:
            self._warn("its parity is on the same disk, so it helps against damaged sectors only, not a dead disk")
        clear_healing(self._folder)
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith(_MAKING):
                shutil.rmtree(path, ignore_errors=True)
            elif name.endswith(_ENDING) and path not in known:
                self._adopt(path)
        for path, one in known.items():
            if os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path):
                self._warn(f"a parity set is gone: {show_path(path)}; it is made anew")
                with run.writing() as connection:
                    parity.drop_set(connection, one.id)
        return True

    def _follow(self, known: dict[bytes, ParitySet]) -> dict[bytes, ParitySet]:
        """Record where sets are now that were moved here, as to a new disk; return those that are known, by path."""
        lost = {os.path.basename(path): path for path in known if not os.path.lexists(path)}
        folders = (one.path for one in os.scandir(self._options.folder) if one.is_dir()) if lost else ()
        for folder in folders:
            for name in lost.keys() & _list_folder(folder):
                one = known.pop(lost.pop(name))
                path = os.path.join(folder, name)
                with self._run.writing() as connection:
                    parity.move_set(connection, one.id, path)
                known[path] = one._replace(path=path)
        return known

    def _adopt(self, path: bytes) -> None:
        """Record a set that a killed run or an older catalog did not."""
        contents, found = _read_back(path), []
        with self._run.catalog.read() as connection:
            for one in contents.files:
                record = files.find_file(connection, self._run.root.id, one.name)
                if record is not None:
                    found.append(Candidate(record.id, record.path, one.size_bytes, 0, one.md5))
        if not found:
            self._warn(f"{show_path(path)}: can't be read, or is no parity of these files; it is left alone")
            return
        stats = {one.path: stat for one in found if (stat := self._stat(one.path)) is not None}
        self._record(path, contents, found, stats)

    def _check_sets(self) -> None:
        """Read the sets that were not read for as long as files may be unread, or have another size by now."""
        run = self._run
        with run.catalog.read() as connection:
            sets = parity.find_sets(connection, run.root.id)
        for one in sets:
            if not os.path.exists(one.set.path):
                continue
            is_due = one.set.checked_at + run.settings.verify_every_s <= run.now()
            if not is_due and os.stat(one.set.path).st_size == one.set.size_bytes:
                continue
            self._require_time()
            run.pace.take(one.set.size_bytes)
            contents = _read_back(one.set.path)
            self._report.checked += 1
            if not contents.is_intact:
                self._report.damaged += 1
                self._warn(f"a parity set is damaged: {show_path(one.set.path)}; it is made anew if it can be")
            with run.writing() as connection:
                parity.note_checked(
                    connection,
                    one.set.id,
                    contents.recovery_slices if contents.files else 0,
                    is_damaged=not contents.is_intact,
                    now=run.now(),
                )

    def _make_sets(self) -> None:
        run, percent = self._run, self._options.percent
        with run.catalog.read() as connection:
            leaving = find_leaving(connection, run.root.id, run.prefix, rested_at=self._rested_at)
        for group in group_files(self._find_candidates(leaving)):
            waiting = [group]
            while waiting and not self._report.is_full:
                self._require_time()
                files = waiting.pop()
                bad = self._make_if_it_fits(plan_set(files, percent))
                rest = [one for one in files if one.id not in bad]
                if bad and not rest and len(files) > 1:  # perhaps because of one of them
                    half = len(files) // 2
                    waiting += [files[half:], files[:half]]
                elif bad:
                    self._report.left += [self._base + one.path for one in files if one.id in bad]
                    waiting += [rest] if rest else []
            if self._report.is_full:
                return

    def _find_candidates(self, leaving: set[int]) -> Iterator[Candidate]:
        """Yield what is to be protected; no transaction is open while a set is made."""
        run, found = self._run, list[Candidate]()
        after: Candidate | None = None
        while True:
            with run.catalog.read() as connection:
                found = parity.page_candidates(
                    connection, run.root.id, run.prefix, after, rested_at=self._rested_at, leaving=leaving
                )
            if not found:
                return
            yield from found
            after = found[-1]

    def _make_if_it_fits(self, plan: SetPlan) -> set[FileId]:
        """Make one set; return the files because of which it does not count. Without room for it, none is made."""
        if shutil.disk_usage(self._folder).free >= 2 * plan.parity_bytes + _SPARE_BYTES:
            try:
                return self._make(plan)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
        self._note_full()
        return set()

    def _make(self, plan: SetPlan) -> set[FileId]:
        run = self._run
        before = {one.path: stat for one in plan.files if (stat := self._stat(one.path)) is not None}
        bad = {one.id for one in plan.files if not _is_recorded(before.get(one.path), one)}
        if bad:
            return bad
        with self._making() as folder:
            index = os.path.join(folder, b"set" + _ENDING)
            par2 = Par2(show_path(self._folder), self._is_over, run.pace, threads=run.context.jobs)
            paths = [self._base + one.path for one in plan.files]
            trouble = par2.create(self._base, index, plan.slice_bytes, plan.recovery_slices, paths)
            if trouble:
                if shutil.disk_usage(self._folder).free < _SPARE_BYTES:
                    raise OSError(errno.ENOSPC, trouble)
                bad = self._find_changed(plan, before) or {one.id for one in plan.files}
                if len(bad) == 1:
                    self._warn(f"par2 made no parity of a file: {trouble}")
                return bad
            made = self._condense(folder, plan)
            contents = _read_back(made)
            bad = self._find_wrong(plan, contents, before)
            if bad:
                return bad
            name = f"{datetime.fromtimestamp(run.now(), UTC):%Y-%m-%d}-{os.urandom(4).hex()}".encode() + _ENDING
            path = os.path.join(self._folder, name)
            self._give_away(made)
            os.rename(made, path)
            _sync(self._folder)
        self._record(path, contents, plan.files, before)
        report = self._report
        report.sets += 1
        report.files += len(plan.files)
        report.size_bytes += plan.bytes
        report.parity_bytes += os.stat(path).st_size
        run.counts.add(Tally.VERIFIED, len(plan.files))
        run.counts.bytes_read += plan.bytes
        return set()

    @contextmanager
    def _making(self) -> Iterator[bytes]:
        folder = tempfile.mkdtemp(prefix=_MAKING, dir=self._folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _condense(self, folder: bytes, plan: SetPlan) -> bytes:
        made = os.path.join(folder, b"made")
        index, volume = sorted(os.listdir(folder))  # set.par2, set.vol0+1.par2
        with (
            open(os.path.join(folder, index), "rb") as shared,
            open(os.path.join(folder, volume), "rb") as slices,
            open(made, "xb") as target,
        ):
            condense(shared, slices, target, most_twice_bytes=plan.most_twice_bytes)
            target.flush()
            os.fsync(target.fileno())
        return made

    def _find_wrong(self, plan: SetPlan, contents: SetContents, before: Mapping[bytes, os.stat_result]) -> set[FileId]:
        """Return the files that were not what was recorded while the set was made (I1)."""
        has = {one.name: one.md5 for one in contents.files}
        wrong = {one.id for one in plan.files if has.get(one.path) != one.md5}
        changed = self._find_changed(plan, before)
        rotten = wrong - changed
        if rotten:
            with self._run.writing() as connection:
                mark_suspects(connection, dict.fromkeys(rotten))
        others = has.keys() - {one.path for one in plan.files}
        if others:  # par2 takes * and ? in names for patterns
            changed |= {one.id for one in plan.files if b"*" in one.path or b"?" in one.path}
        is_whole = contents.is_intact and contents.recovery_slices >= plan.recovery_slices
        return wrong | changed or (set() if is_whole else {one.id for one in plan.files})

    def _find_changed(self, plan: SetPlan, before: Mapping[bytes, os.stat_result]) -> set[FileId]:
        found = set()
        for one in plan.files:
            now = self._stat(one.path)
            if now is None or _get_stamps(now) != _get_stamps(before[one.path]):
                found.add(one.id)
        return found

    def _record(
        self, path: bytes, contents: SetContents, found: Sequence[Candidate], stats: Mapping[bytes, os.stat_result]
    ) -> None:
        now = self._run.now()
        one = ParitySet(
            *(0, path, contents.slice_bytes, contents.source_slices, contents.recovery_slices),
            *(os.stat(path).st_size, now, now),
            is_damaged=not contents.is_intact,
        )
        rows = []
        for each in found:
            stat = stats.get(each.path)
            rights = (0o100600, 0, 0) if stat is None else (stat.st_mode, stat.st_uid, stat.st_gid)
            rows.append(ParityFile(each.id, each.path, each.size_bytes, each.md5, *rights))
        with self._run.writing() as connection:
            parity.add_set(connection, self._run.root.id, one, rows)

    def _remove_spare(self) -> None:
        """Remove the sets that newer ones replace (I2, I3)."""
        run = self._run
        with run.writing() as connection:
            spare = parity.find_spare(connection, run.root.id)
            spare = [one for one in spare if os.path.exists(one.path)]
            for one in spare:
                parity.drop_set(connection, one.id)
        for one in spare:
            with suppress(OSError):  # it is recorded anew by the next run
                os.unlink(one.path)
                self._report.removed += 1

    def _stat(self, path: bytes) -> os.stat_result | None:
        try:
            return stat_beneath(self._run.root_fd, path)
        except OSError:
            return None

    def _give_away(self, path: bytes) -> None:
        """Give what root made to whoever owns the folder for parity: the service goes on with it."""
        if os.geteuid() == 0:
            owner = os.stat(self._options.folder)
            os.chown(path, owner.st_uid, owner.st_gid)

    def _is_over(self) -> bool:
        """Return whether to end; called all the time, so that others see that it is no hanging job."""
        context, report = self._run.context, self._report
        self._run.progress("parity", report.files, report.size_bytes, files=None, size=None)
        return context.stop.is_set() or context.preempted.is_set()

    def _require_time(self) -> None:
        if self._is_over():
            raise ReadInterrupted("interrupted")

    def _note_full(self) -> None:
        self._report.is_full = self._run.is_incomplete = True
        free = format_size(shutil.disk_usage(self._folder).free)
        self._warn(
            f"the disk of {show_path(self._folder)} is full ({free} free, of which {format_size(_SPARE_BYTES)} stay"
            " free), so no more parity is made; all else goes on."
            f" Free some of it, then: {self._options.spell_command(self._run.root.path)}"
        )

    def _warn(self, text: str) -> None:
        self._run.note(NoteKind.WARNING, None, text)


def _get_stamps(stat: os.stat_result) -> tuple[int, int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _is_recorded(stat: os.stat_result | None, one: Candidate) -> bool:
    """Return whether a file looks like what was recorded."""
    if stat is None or not S_ISREG(stat.st_mode):
        return False
    return (stat.st_size, witness_of(stat).mtime_ns) == (one.size_bytes, one.mtime_ns)


def _read_back(path: bytes) -> SetContents:
    """Read a set from its disk; one that can't be read is damaged."""
    try:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return read_set(file)
    except OSError:
        return SetContents((), 0, 0, is_intact=False)


def _list_folder(folder: bytes) -> list[bytes]:
    """List the names in a folder; one that may not be read has none."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _sync(folder: bytes) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
