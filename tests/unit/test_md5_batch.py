"""MD5 of many messages at once, through both implementations against hashlib, whatever goes beside what."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity._native import lib
from integrity.hashing import md5_native, md5_standin
from integrity.hashing.md5_native import NativeMd5
from integrity.hashing.md5_standin import StandinMd5

DigestMany = Callable[..., list[bytes]]

MESSAGE = bytes(i * 7 % 251 for i in range(5000))
BORDERS = [0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 129, 1023, 1024, 4096]


@pytest.fixture(params=[md5_native, md5_standin])
def digest_many(request: pytest.FixtureRequest) -> DigestMany:
    """Stand for either implementation."""
    implementation: DigestMany = request.param.digest_many
    return implementation


@pytest.fixture(params=[0, lib.MD5_FEATURES_ALL])
def mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Let the core use some features only."""
    lib.md5_set_feature_mask(request.param)
    yield request.param
    lib.md5_set_feature_mask(lib.MD5_FEATURES_ALL)


def expect(messages: list[bytes]) -> list[bytes]:
    return [hashlib.md5(message).digest() for message in messages]


def test_every_length_alone_and_beside_another(mask: int) -> None:
    """All lengths up to 1100 are right, alone, beside a shorter and beside a longer message."""
    for length in range(1101):
        message = MESSAGE[:length]
        for messages in ([message], [message, MESSAGE[1:][: 1100 - length]], [MESSAGE[3:2003], message, b""]):
            assert expect(messages) == md5_native.digest_many(messages)


def test_every_count(digest_many: DigestMany) -> None:
    """Any number of messages from none to 40, of uneven lengths, comes out in the order it went in."""
    choices = random.Random(40)
    for count in range(41):
        for _ in range(10):
            begins = [choices.randrange(500) for _ in range(count)]
            messages = [MESSAGE[begin : begin + choices.choice(BORDERS)] for begin in begins]

            assert expect(messages) == digest_many(messages)


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


def test_a_stream_can_be_saved_after_a_batch() -> None:
    """The state of a stream that was updated in a batch is the one that update leaves."""
    for length in range(200):
        beside, plain = NativeMd5(b"abc"), NativeMd5(b"abc")
        plain.update(MESSAGE[:length])

        md5_native.digest_many([MESSAGE], beside=[(beside, MESSAGE[:length])])

        assert plain.export_state() == beside.export_state()


def test_any_buffer_is_a_message(digest_many: DigestMany) -> None:
    """Slices of memory are taken as they are, the empty ones too."""
    memory = memoryview(bytearray(MESSAGE))

    assert expect([MESSAGE[5:70], b"", MESSAGE]) == digest_many([memory[5:70], memory[9:9], memory])


def test_text_is_refused(digest_many: DigestMany) -> None:
    """Text has to be encoded first."""
    with pytest.raises(TypeError):
        digest_many([b"a", "b"])
