"""Digesting files named one by one: order, pieces, errors, and what is not a regular file."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path

import pytest

from integrity.files import plain
from integrity.hashing.algorithms import SHA256, XXH3
from integrity.hashing.file_sums import FileSum, Hint, SumRequest, sum_each, sum_files
from integrity.hashing.stored_digests import MD5, Algorithm
from support.expected import expect_md5
from support.shapes import put_deep, put_in

LARGE = 5 << 20


def digests(result: FileSum) -> list[tuple[bytes, ...]]:
    """Return the digests of all pieces."""
    assert result.error is None
    return [piece[2] for piece in result.pieces]


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_names(tmp_path: Path, jobs: int) -> None:
    """Large files, which are read apart, stand in their place between small ones; a name may come twice."""
    contents = [b"x" * size for size in (LARGE, 0, 1, 5000, LARGE + 1, *range(200), LARGE)]
    paths = [put_in(tmp_path, str(number), data) for number, data in enumerate(contents)]
    paths.append(paths[0])
    found = list(sum_files(paths, [MD5], jobs=jobs))

    assert paths == [each.path for each in found]
    assert [[(expect_md5(data),)] for data in [*contents, contents[0]]] == [digests(each) for each in found]
    assert len(contents[4]) == found[4].size_bytes


def test_each_file_has_its_own_algorithms(tmp_path: Path) -> None:
    """Requests differ, and the order is kept."""
    path = put_in(tmp_path, "a", b"abc")
    wanted: list[tuple[Algorithm, ...]] = [(MD5,), (SHA256,), (MD5,), (XXH3, MD5)]
    found = list(sum_each(SumRequest(path, algorithms) for algorithms in wanted))

    assert [[len(digest) for digest in digests(each)[0]] for each in found] == [[16], [32], [16], [8, 16]]


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, (1 << 20) + 5])
def test_pieces_cover_the_file(tmp_path: Path, size: int) -> None:
    """Each piece has its place and its digest; the last may be short, and an empty file is one piece."""
    data = os.urandom(size)
    step = 10 if size < 100 else (1 << 18) + 1
    (found,) = sum_files([put_in(tmp_path, "a", data)], [MD5], piece_bytes=step)
    cuts = range(0, size, step) or [0]

    assert [(at, len(data[at : at + step]), (expect_md5(data[at : at + step]),)) for at in cuts] == list(found.pieces)


def test_errors_take_the_place_of_digests(tmp_path: Path) -> None:
    """What can't be read is told where it stands, and the others are read."""
    good = put_in(tmp_path, "good", b"abc")
    paths = [good, bytes(tmp_path / "gone"), bytes(tmp_path), good + b"/x", good]
    found = list(sum_files(paths, [MD5]))
    errors = [None if each.error is None else each.error.errno for each in found]

    assert [None, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, None] == errors
    assert [1, 0, 0, 0, 1] == [len(each.pieces) for each in found]


def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    """As md5sum does."""
    (tmp_path / "link").symlink_to(put_in(tmp_path, "a", b"abc"))
    (found,) = sum_files([bytes(tmp_path / "link")], [MD5])

    assert [(expect_md5(b"abc"),)] == digests(found)


def test_files_without_a_size_are_read_to_their_end() -> None:
    """Those in /proc say that they are empty."""
    (found,) = sum_files([b"/proc/self/cmdline"], [MD5])

    assert found.size_bytes > 0


def test_fifo_is_read_to_its_end(tmp_path: Path) -> None:
    """As md5sum does."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"abc",))
    writer.start()
    (found,) = sum_files([bytes(fifo)], [MD5])
    writer.join()

    assert [(expect_md5(b"abc"),)] == digests(found)


def test_path_too_long_for_a_system_call_is_read(tmp_path: Path) -> None:
    """A walk finds such files, so they can be digested."""
    top = bytes(tmp_path / "deep")
    os.mkdir(top)
    put_deep(top, 25, b"d" * 200)
    path = b"/".join([top, *[b"d" * 200] * 25, b"bottom.txt"])
    (found,) = sum_files([path], [MD5])

    assert len(path) > 4096
    assert [(expect_md5(b"deep\n"),)] == digests(found)


def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Names are taken only as results are (I2)."""
    path = put_in(tmp_path, "a", b"abc")
    numbers = count()
    results = sum_files((path for _ in numbers), [MD5], jobs=2)
    for _ in range(1000):
        next(results)
    results.close()  # type: ignore[attr-defined]

    assert next(numbers) < 140_000


def test_what_a_thread_dies_of_is_raised(tmp_path: Path) -> None:
    """A bug is no reading error, and nobody waits for ever."""
    with pytest.raises(ValueError, match="null"):
        list(sum_files([b"a\0b"], [MD5]))


def test_waiting_thread_does_not_keep_the_program_alive(tmp_path: Path) -> None:
    """A FIFO without a writer blocks one thread, not the end of the program."""
    os.mkfifo(tmp_path / "fifo")
    program = (
        "import sys; from integrity.hashing.file_sums import sum_files;"
        "from integrity.hashing.stored_digests import MD5;"
        "results = sum_files([sys.argv[1].encode()] * 600, [MD5], jobs=1);"
        "import threading; threading.Thread(target=lambda: next(results), daemon=True).start()"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "fifo"], check=True, timeout=30)


@pytest.mark.parametrize("jobs", [1, 3])
def test_files_that_were_hinted_at_stand_in_their_place(tmp_path: Path, jobs: int) -> None:
    """Whatever was begun before it was asked for, or never is, results are those of the names, in their order."""
    contents = [b"x" * size for size in (LARGE, 5, 0, LARGE + 1, 1, LARGE + 2, 7)]
    paths = [put_in(tmp_path, str(number), data) for number, data in enumerate(contents)]
    hints = [Hint(path, len(data)) for path, data in zip(paths, contents, strict=True)]
    asked = [*paths[:6], paths[0]]

    found = list(sum_files([*hints, Hint(b"gone", LARGE), *asked], [MD5], jobs=jobs))

    assert asked == [each.path for each in found]
    assert [[(expect_md5(data),)] for data in [*contents[:6], contents[0]]] == [digests(each) for each in found]


@pytest.mark.parametrize("evicted", ["before", "while they are begun", "never"])
def test_a_disk_that_turns_is_read_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evicted: str
) -> None:
    """Nobody waits for a turn that is its own, whenever large files leave the memory in which they were thought."""
    looks = count()
    last_look = {"before": 0, "while they are begun": 5, "never": 1 << 30}[evicted]
    monkeypatch.setattr(plain, "_is_rotational", lambda fd: True)
    monkeypatch.setattr(plain, "lies_in_memory", lambda fd: next(looks) < last_look)
    contents = [os.urandom(LARGE + number) for number in range(6)]
    paths = [put_in(tmp_path, str(number), data) for number, data in enumerate(contents)]

    for algorithms in ([MD5], [SHA256, MD5]):
        found = list(sum_files([*paths, bytes(tmp_path), paths[0]], algorithms, jobs=3))

        assert [expect_md5(data) for data in [*contents, contents[0]]] == [
            each.pieces[0][2][-1] for each in found if each.error is None
        ]
