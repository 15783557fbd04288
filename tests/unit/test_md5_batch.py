"""
MD5 of many messages at once, through both implementations against hashlib, whatever goes beside what.

All lengths, counts and borders of memory: ``native/md5_selftest_batch.c``, ``native/md5_selftest_border.c``.
"""

from __future__ import annotations

import array
import hashlib
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity._native import lib
from integrity.hashing import md5_native, md5_standin
from integrity.hashing.md5_native import NativeMd5, digest_arena, list_paths, only_path
from integrity.hashing.md5_standin import StandinMd5

DigestMany = Callable[..., list[bytes]]

MESSAGE = bytes(i * 7 % 251 for i in range(5000))
BORDERS = [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1023, 1024, 4096]


@pytest.fixture(params=[md5_native, md5_standin])
def digest_many(request: pytest.FixtureRequest) -> DigestMany:
    """Stand for either implementation."""
    implementation: DigestMany = request.param.digest_many
    return implementation


@pytest.fixture(params=list_paths())
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the core use no wider path, for each that this machine has."""
    with only_path(request.param):
        yield request.param


def expect(messages: Sequence[bytes]) -> list[bytes]:
    return [hashlib.md5(message).digest() for message in messages]


def cut_messages(lengths: Sequence[int]) -> list[bytes]:
    """Cut messages of these lengths, no two alike, so that none can be taken for another."""
    return [MESSAGE[number * 13 % 251 :][:length] for number, length in enumerate(lengths)]


@given(lengths=st.lists(st.integers(0, 300) | st.sampled_from(BORDERS) | st.integers(0, 4500), max_size=140))
def test_unequal_lengths_on_every_path(lengths: list[int]) -> None:
    """Whatever lies beside what, every path gives what hashlib gives, copied into one piece or not."""
    messages = cut_messages(lengths)
    expected = expect(messages)
    for path in list_paths():
        with only_path(path):
            assert expected == md5_native.digest_many(messages)
            assert expected == md5_native.digest_many([bytearray(message) for message in messages])


@settings(max_examples=50)
@given(
    mask=st.integers(0, lib.MD5_FEATURES_ALL),
    lengths=st.lists(st.integers(0, 400), max_size=70),
    streams=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3000)), max_size=70),
)
def test_streams_beside_messages_under_every_mask(
    mask: int, lengths: list[int], streams: list[tuple[int, int]]
) -> None:
    """Any number of streams, empty updates among them; they can be saved afterwards and go on elsewhere."""
    messages = cut_messages(lengths)
    beside = [(NativeMd5(MESSAGE[:before]), MESSAGE[before:][:more]) for before, more in streams]
    lib.md5_set_feature_mask(mask)
    try:
        digests = md5_native.digest_many(messages, beside=beside)
    finally:
        lib.md5_set_feature_mask(lib.MD5_FEATURES_ALL)

    assert expect(messages) == digests
    resumed = [NativeMd5.import_state(stream.export_state()) for stream, _ in beside]
    assert expect([MESSAGE[: sum(one)] for one in streams]) == [stream.digest() for stream in resumed]


@given(
    lengths=st.lists(st.integers(0, 300), max_size=12),
    streams=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300)), max_size=5),
)
@pytest.mark.parametrize("core", [(md5_native, NativeMd5), (md5_standin, StandinMd5)])
def test_streams_beside_messages(core: tuple, lengths: list[int], streams: list[tuple[int, int]]) -> None:
    """Streams that have seen some bytes take more of them beside messages, and can go on afterwards."""
    module, stream_type = core
    messages = [MESSAGE[length : 2 * length] for length in lengths]
    beside = [(stream_type(MESSAGE[:before]), MESSAGE[before : before + more]) for before, more in streams]

    digests = module.digest_many(messages, beside=beside)
    for stream, _ in beside:
        stream.update(b"more")

    assert expect(messages) == digests
    assert expect([MESSAGE[: sum(one)] + b"more" for one in streams]) == [stream.digest() for stream, _ in beside]


class OddBytes(bytes):
    """Says that it is longer than it is."""

    def __len__(self) -> int:
        return super().__len__() + 100


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, OddBytes, lambda data: array.array("B", data)])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 129])
def test_messages_may_be_of_any_type(digest_many: DigestMany, wrap: Callable[[bytes], bytes], count: int) -> None:
    """All of one type or only the first or the last; bytes of a class of their own count by what is in them."""
    messages = cut_messages([number % 150 for number in range(count)])
    expected = expect(messages)

    assert expected == digest_many([wrap(message) for message in messages])
    assert expected == digest_many([wrap(messages[0]), *messages[1:]])
    assert expected == digest_many([*messages[:-1], wrap(messages[-1])])
    assert expected == digest_many(tuple(messages))


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_short_and_long_messages_on_the_average(digest_many: DigestMany, more: int) -> None:
    """On either side of the length from which on messages are no longer copied into one piece."""
    lengths = [*[2048] * 8, 0, 4096, 2048 + more]

    assert expect(cut_messages(lengths)) == digest_many(cut_messages(lengths))


def test_words_count_by_their_bytes(digest_many: DigestMany) -> None:
    """A buffer of larger items is a message of all its bytes; slices of memory are taken, empty ones too."""
    words, memory = array.array("I", range(100)), memoryview(bytearray(MESSAGE))

    assert expect([words.tobytes(), b"a"]) == digest_many([words, b"a"])
    assert expect([MESSAGE[5:70], b"", MESSAGE]) == digest_many([memory[5:70], memory[9:9], memory])


def test_buffer_with_gaps_is_refused(digest_many: DigestMany) -> None:
    """A view with a step has no one address."""
    with pytest.raises((BufferError, ValueError)):
        digest_many([b"a", memoryview(MESSAGE)[::2]])


@pytest.mark.parametrize("size_bytes", [1, 3, 55, 56, 63, 64, 65, 300, 1024, 4096, 6000])
def test_arena_is_cut_into_messages(path: str, size_bytes: int) -> None:
    """Messages of one length from one piece of memory; the last one may be shorter, and may be the only one."""
    for total in (0, 1, size_bytes - 1, size_bytes, size_bytes + 1, min(70 * size_bytes, 5000) + size_bytes // 2):
        arena = MESSAGE[:total]
        expected = b"".join(expect([arena[at : at + size_bytes] for at in range(0, len(arena), size_bytes)]))

        assert expected == digest_arena(arena, size_bytes)
        assert expected == digest_arena(memoryview(bytearray(arena)), size_bytes)


def test_text_is_refused(digest_many: DigestMany) -> None:
    """Text has to be encoded first."""
    with pytest.raises(TypeError):
        digest_many([b"a", "b"])
