"""
MD5 through both implementations, and what only the C core can do: save its state.

All lengths, splits and states: ``native/md5_selftest_stream.c``, and on each path ``test_md5_paths.py``.
"""

from __future__ import annotations

import array
import hashlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from integrity.errors import NativeError
from integrity.hashing.md5_native import NativeMd5
from integrity.hashing.md5_standin import StandinMd5
from support.expected import expect_md5

AnyMd5 = type[NativeMd5] | type[StandinMd5]

MESSAGE = bytes(i * 7 % 251 for i in range(1100))
MIB = 1 << 20

# Offsets in a state: native/md5.h.
AT_VERSION = 4
CHECK_BYTES = 8


@pytest.fixture(params=[NativeMd5, StandinMd5])
def md5(request: pytest.FixtureRequest) -> AnyMd5:
    """Stand for either implementation."""
    implementation: AnyMd5 = request.param
    return implementation


def with_right_check(state: bytes) -> bytes:
    """Seal a forged state."""
    body = state[:-CHECK_BYTES]
    return body + hashlib.md5(body, usedforsecurity=False).digest()[:CHECK_BYTES]


# What both implementations do.


def test_face_is_that_of_hashlib(md5: AnyMd5) -> None:
    """Name, sizes and the two forms of the digest are as in hashlib."""
    stream = md5(b"abc")

    assert ("md5", 16, 64) == (stream.name, stream.digest_size, stream.block_size)
    assert bytes.fromhex("900150983cd24fb0d6963f7d28e17f72") == stream.digest()
    assert type(stream.digest()) is bytes
    assert "900150983cd24fb0d6963f7d28e17f72" == stream.hexdigest()


@pytest.mark.parametrize(
    "buffer",
    [
        MESSAGE,
        bytearray(MESSAGE),
        memoryview(MESSAGE)[3:900],
        memoryview(bytearray(MESSAGE)),
        array.array("I", range(100)),
        memoryview(array.array("d", range(10))),
        bytearray(),
        b"",
    ],
    ids=lambda buffer: f"{type(buffer).__name__}-{len(buffer)}",
)
def test_any_contiguous_buffer_is_accepted(md5: AnyMd5, buffer: memoryview) -> None:
    """Buffers count by their bytes, whatever their items are; the constructor takes them, too."""
    stream = md5()
    stream.update(buffer)

    expected = expect_md5(bytes(memoryview(buffer).cast("B"))).hex()
    assert [expected, expected] == [stream.hexdigest(), md5(buffer).hexdigest()]


@pytest.mark.parametrize("wrong", ["", "text", 0, 5, None, [1]])
def test_what_is_no_buffer_is_refused(md5: AnyMd5, wrong: bytes) -> None:
    """Text and numbers are a mistake of the caller, also when they are empty."""
    with pytest.raises(TypeError):
        md5(wrong)
    with pytest.raises(TypeError):
        md5().update(wrong)


def test_buffer_with_gaps_is_refused(md5: AnyMd5) -> None:
    """A view with a step has no one address."""
    with pytest.raises(BufferError):
        md5().update(memoryview(MESSAGE)[::2])


def test_buffer_is_let_go_after_update(md5: AnyMd5) -> None:
    """A reused read buffer can be resized, so no hidden reference to it stays."""
    buffer = bytearray(MESSAGE)
    stream = md5(buffer)
    stream.update(buffer)
    buffer.clear()

    assert expect_md5(MESSAGE + MESSAGE).hex() == stream.hexdigest()


def test_copy_goes_its_own_way(md5: AnyMd5) -> None:
    """Neither of two streams sees what the other is fed."""
    stream = md5(b"ab")
    twin = stream.copy()
    twin.update(b"c")
    stream.update(b"x")

    assert [expect_md5(b"abx").hex(), expect_md5(b"abc").hex()] == [stream.hexdigest(), twin.hexdigest()]


def test_reset_forgets_all_bytes(md5: AnyMd5) -> None:
    """A stream that was reset is as good as a new one."""
    stream = md5(MESSAGE)
    stream.reset()
    assert expect_md5(b"").hex() == stream.hexdigest()

    stream.update(b"abc")
    assert expect_md5(b"abc").hex() == stream.hexdigest()


# What the C core does besides.


@pytest.mark.long
def test_digest_and_state_are_right_beyond_4_gib() -> None:
    """The byte count does not wrap at 32 bits, neither in the digest nor in a saved state."""
    chunk = MESSAGE * (16 * MIB // len(MESSAGE))
    chunks = (1 << 32) // len(chunk) + 2

    def hash_ours() -> str:
        stream = NativeMd5()
        for _ in range(chunks - 1):
            stream.update(chunk)
        stream = NativeMd5.import_state(stream.export_state())
        stream.update(chunk)
        return stream.hexdigest()

    def hash_theirs() -> str:
        stream = hashlib.md5(usedforsecurity=False)
        for _ in range(chunks):
            stream.update(chunk)
        return stream.hexdigest()

    # Side by side: both let go of the interpreter lock.
    with ThreadPoolExecutor(max_workers=2) as pool:
        ours, theirs = pool.submit(hash_ours), pool.submit(hash_theirs)

        assert theirs.result() == ours.result()


@pytest.mark.parametrize(
    ("offset", "value", "problem"),
    [(AT_VERSION, 0, "another version"), (AT_VERSION, 2, "another version"), (24, 77, "contradict")],
)
def test_state_that_can_not_be_is_refused(offset: int, value: int, problem: str) -> None:
    """A right check value excuses neither another version nor counts that cannot be; a wrong one is told."""
    state = bytearray(NativeMd5(MESSAGE).export_state())
    assert expect_md5(MESSAGE).hex() == NativeMd5.import_state(with_right_check(bytes(state))).hexdigest()
    assert state[offset] != value
    state[offset] = value
    for forged, what in ((with_right_check(bytes(state)), problem), (bytes(state), "hash the file from its beginning")):
        with pytest.raises(NativeError, match=what):
            NativeMd5.import_state(forged)


def test_interpreter_lock_is_released_while_hashing() -> None:
    """
    Another thread runs while a large buffer is hashed.

    The interpreter is told never to take the lock away, so this thread can only run before the update is over if the
    update gives the lock up. One time in many is proof; a busy machine may miss some.
    """
    buffer = bytes(16 * MIB)
    interval_s = sys.getswitchinterval()

    def ran_during_update() -> bool:
        started = threading.Event()
        finished: list[bool] = []

        def work() -> None:
            stream = NativeMd5()
            started.set()
            stream.update(buffer)
            finished.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        is_during = not finished
        thread.join()
        return is_during

    sys.setswitchinterval(1000)
    try:
        assert any(ran_during_update() for _ in range(50))
    finally:
        sys.setswitchinterval(interval_s)


# What only the stand-in does.


def test_standin_refuses_to_save_or_take_up_a_state() -> None:
    """What the standard library cannot do is said, not faked."""
    with pytest.raises(NativeError, match="in-file resume is off"):
        StandinMd5(MESSAGE).export_state()
    with pytest.raises(NativeError, match="in-file resume is off"):
        StandinMd5.import_state(NativeMd5(MESSAGE).export_state())
