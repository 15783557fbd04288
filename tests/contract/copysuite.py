"""
What every kind of copy is held to (C1 to C7 and the attributes in ``copies.protocol``).

A kind has a subclass of ``CopySuite`` named ``Test...`` with the fixtures ``make`` and ``gone``. A folder is planted,
and what the kind makes of it is compared with the folder. C6 and C7 are for each kind's own tests.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Set
from pathlib import Path

import pytest
from xxhash import xxh3_128_digest

from integrity.copies.filenames import find_fault
from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy, CopyEntry, Kind, Published, Trouble
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted, Unreadable
from support.proc import count_descriptors
from support.waiting import wait_until

MakeCopy = Callable[[Path], Copy]
"""Make a copy, not entered yet, of what is in a folder; the folder may serve as the copy itself."""

LARGE = bytes(range(251)) * 12_000  # 3 MB without a power of two in it
PLANTED: dict[bytes, bytes] = {
    b"plain.txt": b"plain",
    b"empty": b"",
    b"large.bin": LARGE,
    b"sub/plain.txt": b"another",
    b"sub/deep/er/file": b"deep",
    b"sub2/file": b"no part of sub",
    b"sub.txt": b"no part of sub, either",
    b"-rf": b"dash",
    b"--help": b"dashes",
    b" lead and trail ": b"spaces",
    b"back\\slash": b"backslash",
    b"new\nline": b"newline",
    b"return\r": b"carriage return",
    b"tab\there": b"tab",
    b"bad\xff\xfeutf8": b"not UTF-8",
    b"\x01\x1b[31mred": b"escapes",
    b"quote'\"`$(touch pwned);&|<>*?[a]{b,c}": b"shell",
    "caf\u00e9".encode(): b"NFC",
    "cafe\u0301".encode(): b"NFD",
    "\U0001f4f7 photo.jpg".encode(): b"emoji",
    b"#1 100%": b"comment",
    b"%41": b"percent",
    b"+plus&amp;": b"markup",
    b"...": b"three dots",
    b".hidden": b"hidden",
    b"~": b"tilde",
    b"colon:name": b"colon",
    b"ERROR": b"a word",
    b"odd\nfolder/bad\xff": b"odd all the way",
    b"x" * 255: b"long",
}

PREFIXES: dict[bytes, Set[bytes]] = {
    b"sub": {b"sub/plain.txt", b"sub/deep/er/file"},
    b"sub/deep": {b"sub/deep/er/file"},
    b"plain.txt": {b"plain.txt"},
    b"sub/plain.txt": {b"sub/plain.txt"},
    **dict.fromkeys(
        (b"su", b"no/such", b"plain.txt/below", b"to-file", b"to-outside", b"to-outside/secret"), frozenset()
    ),
    **dict.fromkeys((b"fifo", b"empty-folder", b"../outside", b"sub/../../outside", b"/etc", b"sub\0"), frozenset()),
}
"""What is listed below each."""

NO_FILES = (
    *(b"no-such-file", b"sub", b"to-file", b"to-outside/secret", b"fifo", b"", b".", b"../outside/secret"),
    *(b"sub/../../outside/secret", b"sub/../plain.txt", b"/etc/passwd", b"plain.txt\0", b"plain.txt/", b"./plain.txt"),
)

_HASHES: dict[Kind, Callable[[bytes], bytes]] = {
    Kind.MD5: lambda data: hashlib.md5(data).digest(),
    Kind.SHA1: lambda data: hashlib.sha1(data).digest(),
    Kind.SHA256: lambda data: hashlib.sha256(data).digest(),
    Kind.SHA512: lambda data: hashlib.sha512(data).digest(),
}


def plant(folder: Path) -> None:
    """Put the files there, and beside them what is no file."""
    for path, data in PLANTED.items():
        target = bytes(folder) + b"/" + path
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"not for you")
    (folder / "to-file").symlink_to("plain.txt")
    (folder / "to-outside").symlink_to(outside)
    (folder / "to-nothing").symlink_to("nowhere")
    (folder / "empty-folder").mkdir()
    os.mkfifo(folder / "fifo")


def list_entries(copy: Copy, prefix: bytes = b"") -> dict[bytes, CopyEntry]:
    """List what a copy has, no path twice."""
    entries = [found for found in copy.list(prefix) if isinstance(found, CopyEntry)]
    by_path = {entry.path: entry for entry in entries}
    assert len(by_path) == len(entries)
    return by_path


class CopySuite:
    """
    The tests.

    Attributes:
        published: the kinds of digests that listings of this kind of copy have for each file.
        keeps_times, states_times: whether its listings have the times that files had, or any time.
        is_folder: whether it is a folder of this machine.
        every: one of so many files is opened, where that is slow.
        has_empty: whether it has empty files.
        has_own_stat: whether its files have the stat of the originals, though it is no folder.
    """

    published: frozenset[Kind] = frozenset()
    states_size = True
    keeps_times = True
    states_times = True
    is_folder = False
    every = 1
    has_empty = True
    has_own_stat = False

    @pytest.fixture
    def make(self) -> MakeCopy:
        """Give what makes copies of this kind."""
        raise NotImplementedError

    @pytest.fixture
    def gone(self) -> Copy:
        """Give a copy whose place does not exist, or does not answer."""
        raise NotImplementedError

    def open_again(self, url: str, tree: Path) -> Copy:
        """Make the copy of a folder that a URL names."""
        return open_copy(url)

    def find_carried(self, copy: Copy) -> dict[bytes, bytes]:
        """Return what of the planted files a copy can have under their names."""
        named = {path: data for path, data in PLANTED.items() if copy.find_name_fault(path) is None}
        return {path: data for path, data in named.items() if data or self.has_empty}

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        """Plant the files."""
        folder = tmp_path / "planted"
        folder.mkdir()
        plant(folder)
        return folder

    def test_every_file_is_listed_and_nothing_else(self, make: MakeCopy, tree: Path) -> None:
        """C1, C2: odd names come as they are; links, FIFOs and folders don't; what can't be carried is a Trouble."""
        with make(tree) as copy:
            found = list(copy.list())
            expected = self.find_carried(copy)
        assert expected.keys() == {entry.path for entry in found if isinstance(entry, CopyEntry)}
        assert len(PLANTED) - len(expected) >= sum(isinstance(one, Trouble) for one in found)
        assert all(find_fault(entry.path) is None for entry in found if isinstance(entry, CopyEntry))

    def test_sizes_and_digests_are_those_of_the_files(self, make: MakeCopy, tree: Path) -> None:
        """What a listing states is true, and it states what its kind of copy always does."""
        with make(tree) as copy:
            for path, entry in list_entries(copy).items():
                data = PLANTED[path]
                assert entry.size_bytes == len(data) or not (self.states_size or entry.size_bytes is not None)
                assert self.published <= {published.kind for published in entry.published}
                for published in entry.published:
                    if published.kind in _HASHES:
                        assert Published(published.kind, _HASHES[published.kind](data)) == published

    def test_times_are_those_of_the_files_or_of_the_upload(self, make: MakeCopy, tree: Path) -> None:
        """Times that are kept are those of the files, perhaps cut; others are those of the upload."""
        for number, path in enumerate(PLANTED):
            os.utime(bytes(tree) + b"/" + path, ns=(0, (1_000_000_000 + number) * 1_000_000_000 + 123_456_789))
        began_ns = time.time_ns()
        with make(tree) as copy:
            assert self.keeps_times == copy.keeps_times
            for path, entry in list_entries(copy).items():
                assert self.states_times == (entry.mtime_ns is not None)
                if entry.mtime_ns is None:
                    continue
                if copy.keeps_times:
                    shown_ns = os.stat(bytes(tree) + b"/" + path).st_mtime_ns
                    is_kept = abs(entry.mtime_ns - shown_ns) < 10**3  # borg prints microseconds
                    assert is_kept or entry.mtime_ns == shown_ns // 10**9 * 10**9
                else:
                    assert began_ns // 10**9 * 10**9 <= entry.mtime_ns <= time.time_ns()

    def test_prefix_limits_to_whole_names(self, make: MakeCopy, tree: Path) -> None:
        """A prefix is a folder or a file; what is not there is nothing, and what leads out (C4) is never followed."""
        with make(tree) as copy:
            for prefix, expected in PREFIXES.items():
                assert expected == list_entries(copy, prefix).keys(), prefix
            assert list_entries(copy) == list_entries(copy)

    def test_many_files_are_listed_once_each(self, make: MakeCopy, tmp_path: Path) -> None:
        """More files than a page of any store has, in a few folders: each once."""
        folder, count = tmp_path / "many", 1_100
        for number in range(count):
            place = folder / f"folder {number % 7}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_bytes(b"%d" % number)
        with make(folder) as copy:
            assert {b"folder %d/%d.txt" % (number % 7, number) for number in range(count)} == list_entries(copy).keys()

    def test_bytes_are_those_of_the_file(self, make: MakeCopy, tree: Path) -> None:
        """Whole files, odd names among them."""
        with make(tree) as copy:
            if not copy.has_bytes:
                pytest.skip("this kind of copy has no bytes")
            for path, data in list(self.find_carried(copy).items())[:: self.every]:
                file = copy.open(path)
                assert file.size_bytes == len(data)
                assert data == file.read(0, len(data) + 10)
                file.close()
                file.close()

    def test_all_files_are_read_in_one_stream(self, make: MakeCopy, tree: Path) -> None:
        """Where that is offered, each listed file has its size and the digest of its bytes; elsewhere it is refused."""
        with make(tree) as copy:
            if not copy.reads_all_at_once:
                with pytest.raises(ValueError, match="one by one"):
                    next(copy.read_all())
                return
            read = {one.path: one for one in copy.read_all() if isinstance(one, CopyEntry)}
            assert self.find_carried(copy).keys() == read.keys()
            for path, entry in read.items():
                digest = Published(Kind.XXH3_128, xxh3_128_digest(PLANTED[path]))
                assert (len(PLANTED[path]), (digest,)) == (entry.size_bytes, entry.published)
            folder = max(path.rpartition(b"/")[0] for path in read)
            partly = [one for one in copy.read_all(without=[folder]) if isinstance(one, CopyEntry)]
            assert read.keys() == {one.path for one in partly}
            assert {folder} == {one.path.rpartition(b"/")[0] for one in partly if not one.published}
            assert all(one.published in ((), read[one.path].published) for one in partly)
            below = {one.path for one in copy.read_all(b"sub") if isinstance(one, CopyEntry)}
            assert PREFIXES[b"sub"] == below

    def test_any_place_of_a_file_can_be_read(self, make: MakeCopy, tree: Path) -> None:
        """Pieces in order, back and forth, across the end and behind it; two files; a mounted one has its stat."""
        with make(tree) as copy:
            if not copy.has_bytes:
                pytest.skip("this kind of copy has no bytes")
            file, other = copy.open(b"large.bin"), copy.open(b"plain.txt")
            size = len(LARGE)
            step = 700_001
            assert LARGE == b"".join(file.read(offset, step) for offset in range(0, size, step))
            for offset, length in ((5, 1), (1_048_570, 20), (0, 4096), (size - 7, 7), (size - 7, 100), (2_000_000, 3)):
                assert LARGE[offset : offset + length] == file.read(offset, length)
                assert b"lai" == other.read(1, 3)
            assert b"" == file.read(size, 10)
            assert b"" == file.read(size + 10, 10)
            assert b"" == file.read(0, 0)
            assert (copy.folder is not None or self.has_own_stat) == (other.stat is not None)
            there = os.stat(tree / "plain.txt")
            assert copy.folder is None or (other.stat is not None and os.path.samestat(there, other.stat))
            assert other.stat is None or (there.st_mode, there.st_uid) == (other.stat.st_mode, other.stat.st_uid)
            file.close()
            other.close()

    def test_nothing_but_a_file_of_the_copy_is_opened(self, make: MakeCopy, tree: Path) -> None:
        """C4: what is no regular file of the copy under just this path is a ReadError, and nothing waits for it."""
        with make(tree) as copy:
            for path in NO_FILES:
                with pytest.raises(ReadError):
                    copy.open(path)
            if not copy.has_bytes:
                with pytest.raises(Unreadable, match="plain"):
                    copy.open(b"plain.txt")

    def test_digests_are_computed_over_there(self, make: MakeCopy, tree: Path) -> None:
        """Each path once, in the order asked; what is no file has a Trouble; other kinds are refused."""
        with make(tree) as copy:
            none = [b"no-such-file", b"sub", b"to-file", b"fifo", b"../outside/secret", b"/etc/passwd"]
            paths = [*none, *self.find_carried(copy)]
            for kind in copy.remote_kinds:
                digests = list(copy.digest(paths, kind))
                assert paths == [path for path, _ in digests]
                assert all(isinstance(digest, Trouble) for _, digest in digests[: len(none)])
                for path, digest in digests[len(none) :]:
                    assert isinstance(digest, bytes), (path, digest)
                    assert kind not in _HASHES or _HASHES[kind](PLANTED[path]) == digest
            for kind in set(Kind) - copy.remote_kinds:
                with pytest.raises(ValueError, match="digest"):
                    list(copy.digest([b"plain.txt"], kind))

    def test_url_that_is_recorded_opens_the_same_copy(self, make: MakeCopy, tree: Path) -> None:
        """``url`` leads to the same files again, in a later run."""
        with make(tree) as copy:
            expected, url = list_entries(copy), copy.url
        with self.open_again(url, tree) as again:
            assert expected == list_entries(again)
            assert url == again.url

    def test_details_repeat_what_the_listing_states(self, make: MakeCopy, tree: Path) -> None:
        """A closer look contradicts nothing; a copy without details refuses it as a mistake of the caller."""
        with make(tree) as copy:
            entry = list_entries(copy)[b"sub/plain.txt"]
            if copy.has_details:
                closer = copy.look_closer(entry.path)
                assert isinstance(closer, CopyEntry)
                assert (entry.path, entry.size_bytes) == (closer.path, closer.size_bytes)
                assert entry.mtime_ns is not None
                assert closer.mtime_ns is not None  # of a header, which has whole seconds
                assert entry.mtime_ns // 10**9 == closer.mtime_ns // 10**9
                assert isinstance(copy.look_closer(b"no-such-file"), Trouble)
            else:
                with pytest.raises(ValueError, match="states everything"):
                    copy.look_closer(entry.path)

    def test_only_a_folder_of_this_machine_is_read_past_the_cache(self, make: MakeCopy, tree: Path) -> None:
        """What lies on this machine has an identity, the same each time; the others are known by their URL."""
        with make(tree) as copy:
            folder, identity = copy.folder, copy.identity()
            assert (folder is not None) == self.is_folder
            if folder is not None:
                assert identity is not None
                assert os.path.samestat(os.stat(tree), os.fstat(folder.root_fd))
                with folder.reader().open(b"plain.txt") as file:
                    assert len(PLANTED[b"plain.txt"]) == file.size_bytes
        with make(tree) as again:
            assert identity == again.identity()

    def test_waiting_ends_when_it_is_asked_to(self, make: MakeCopy, tree: Path) -> None:
        """What needs no waiting is listed in full; all waiting ends with ReadInterrupted, and nothing is left."""
        with make(tree) as copy:
            files, url = list_entries(copy).keys(), copy.url
        made = self.open_again(url, tree)
        before = _count_left()
        made.interrupt_when(lambda: True)
        try:
            with made as copy:
                assert files == list_entries(copy).keys()
        except ReadInterrupted:
            pass
        _await_as_before(before)

    def test_nothing_is_left_when_a_listing_is_given_up(self, make: MakeCopy, tree: Path) -> None:
        """Leaving in mid-listing and with a file half read closes descriptors, threads and programs."""
        made = make(tree)
        before = _count_left()
        with made as copy:
            listing = copy.list()
            next(listing)
            if copy.has_bytes:
                file = copy.open(b"large.bin")
                file.read(0, 10)
                file.close()
            del listing
        _await_as_before(before)

    def test_nothing_is_written(self, make: MakeCopy, tree: Path) -> None:
        """C4: after listing, reading and digests the planted folder is as it was."""
        before = _take_stock(tree)
        with make(tree) as copy:
            list_entries(copy)
            for kind in copy.remote_kinds:
                list(copy.digest([b"plain.txt", b"-rf"], kind))
            if copy.has_bytes:
                file = copy.open(b"plain.txt")
                file.read(0, 5)
                file.close()
        assert before == _take_stock(tree)

    def test_copy_without_files_is_unreachable(self, make: MakeCopy, tmp_path: Path) -> None:
        """C3: an unmounted disk looks like an empty folder; nothing is said of files then."""
        folder = tmp_path / "nothing"
        folder.mkdir()
        with pytest.raises(CopyUnreachable), make(folder) as copy:
            list(copy.list())

    def test_copy_that_is_not_there_is_unreachable(self, gone: Copy) -> None:
        """C3: the message names the copy and what to do, and nothing is left."""
        before = _count_left()
        with pytest.raises(CopyUnreachable, match=";") as caught, gone as copy:
            list(copy.list())
        assert gone.shown in str(caught.value)
        _await_as_before(before)


def _count_left() -> tuple[int, int, list[str]]:
    """Count descriptors and threads, and list the programs that were started and not yet waited for."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text(encoding="ascii").split()
    return count_descriptors(), threading.active_count(), children


def _await_as_before(before: tuple[int, int, list[str]]) -> None:
    """Wait until no more is left than was; a thread that was told to end may need a moment, and one of before, too."""

    def is_so() -> bool:
        now = _count_left()
        return now[0] <= before[0] and now[1] <= before[1] and set(now[2]) <= set(before[2])

    wait_until(is_so, "the end of what the copy began")


def _take_stock(folder: Path) -> dict[str, tuple[int, int, int]]:
    stock = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            stat = os.lstat(os.path.join(place, name))
            stock[os.path.join(place, name)] = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return stock
