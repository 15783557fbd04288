"""
The C core's MD5 as a Python class. Importing this module raises ImportError if the extension cannot be loaded.

``update`` is called once per small file of a tree, so names are bound once and each object allocates its C struct at
most once. Every call into C releases the interpreter lock.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final, Self, TypeGuard, cast

from integrity._native import ffi, lib
from integrity.errors import NativeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from integrity._native import CData

_CONTEXT = ffi.typeof("md5_context[1]")  # an array: a pointer and its target would be two objects
_DIGEST = ffi.typeof("char[16]")  # char, because unpack converts it to bytes
_DIGESTS = ffi.typeof("uint8_t[]")
_MESSAGES = ffi.typeof("md5_message[]")
_STATE = ffi.typeof(f"uint8_t[{lib.MD5_STATE_MAX_BYTES}]")

_MANY_DIGESTS = Struct("16s" * 64)
_SHORT_BYTES = 2048
"""Messages up to this average length are concatenated: cheaper than a C struct for each."""

_NO_STREAM: Final = ffi.NULL

_new = ffi.new
_from_buffer = ffi.from_buffer
_buffer = ffi.buffer
_unpack = ffi.unpack
_md5_init = lib.md5_init
_md5_begin = lib.md5_begin
_md5_update = lib.md5_update
_md5_final = lib.md5_final
_md5_digest = lib.md5_digest
_md5_batch = lib.md5_batch
_md5_batch_joined = lib.md5_batch_joined

SELF_TEST_FAILED = "cannot compute MD5: the C core fails its self-test; set INTEGRITY_NATIVE=off to go on with hashlib"


_FEATURES = {
    "avx512": lib.MD5_FEATURE_AVX512,
    "avx2": lib.MD5_FEATURE_AVX2,
    "neon": lib.MD5_FEATURE_NEON,
    "interleaved": lib.MD5_FEATURE_INTERLEAVED,
    "scalar-x86-64": lib.MD5_FEATURE_X86_64,
    "scalar": 0,
}
"""Paths, widest first, with the feature bit that each needs. The last two process one message at a time."""

PATHS = tuple(_FEATURES)


def list_paths() -> list[str]:
    """Return the paths in use, widest first; empty if not even the portable one passes its self-test."""
    if not _is_right():
        return []
    in_use = lib.md5_features_in_use()
    return [name for name, feature in _FEATURES.items() if in_use & feature == feature]


def get_path() -> str | None:
    """Return the paths in use for many messages and for one; None if none passes its self-test."""
    paths = list_paths()
    one = next((path for path in paths if path.startswith("scalar")), None)
    return one if one is None or paths[0] == one else f"{paths[0]} and {one}"


def limit_path(widest: str) -> None:
    """Use no path of ``PATHS`` wider than this one from now on, in the whole process."""
    lib.md5_set_feature_mask(max(2 * _FEATURES[widest] - 1, 0))


@contextmanager
def only_path(widest: str) -> Iterator[None]:
    """Use no wider path within the block, for measurements and tests; then restore the earlier paths."""
    in_use_before = lib.md5_features_in_use()
    limit_path(widest)
    try:
        yield
    finally:
        lib.md5_set_feature_mask(in_use_before)


def _is_right() -> bool:
    return bool(_md5_init(_new(_CONTEXT)) == 0)


class NativeMd5:
    """
    Hash a byte stream with MD5; its state can be exported and imported elsewhere.

    One object belongs to one thread at a time. Different objects can be used in parallel.
    """

    __slots__ = ("_begun", "_first")

    name: Final = "md5"
    digest_size: Final = 16
    block_size: Final = 64

    def __init__(self, data: Buffer = b"") -> None:
        # A C call costs more than hashing a short message: keep it here, since nearly always digest is called next.
        self._begun: CData | None = None
        self._first = b""
        if type(data) is bytes and len(data) <= _SHORT_BYTES:
            self._first = data
        else:
            self.update(data)

    @property
    def _context(self) -> CData:
        """Return the ``md5_context`` with all bytes so far."""
        context = self._begun
        if context is None:
            context = self._begun = _new(_CONTEXT)
            if _md5_begin(context, self._first, len(self._first)) != 0:
                raise NativeError(SELF_TEST_FAILED)
        return context

    def update(self, data: Buffer) -> None:
        """
        Append bytes, without copying them and without holding the interpreter lock.

        Args:
            data: an object with one contiguous buffer, which must not change during the call.

        Raises:
            BufferError: the buffer is not contiguous.
            TypeError: there is no buffer (encode text first).
        """
        if type(data) is bytes:
            # cffi passes the address of bytes directly, so the common case needs no wrapper.
            _md5_update(self._context, data, len(data))
        else:
            view = _from_buffer(data)
            _md5_update(self._context, view, len(view))

    def digest(self) -> bytes:
        """Return the 16-byte digest of everything so far; the stream can continue."""
        digest = _new(_DIGEST)
        if self._begun is not None:
            _md5_final(self._begun, digest)
        elif _md5_digest(self._first, len(self._first), digest) != 0:
            raise NativeError(SELF_TEST_FAILED)
        return _unpack(digest, 16)

    def hexdigest(self) -> str:
        """Return the digest as 32 lower-case hexadecimal digits."""
        return self.digest().hex()

    def copy(self) -> Self:
        """Return an independent stream with the same bytes so far."""
        clone = type(self)()
        clone._context[0] = self._context[0]  # noqa: SLF001 (same class)
        return clone

    def reset(self) -> None:
        """Forget all bytes."""
        self._begun, self._first = None, b""

    def export_state(self) -> bytes:
        """Return the state for ``import_state``; native/md5.h defines the format."""
        return export_state(self._context)

    @classmethod
    def import_state(cls, state: bytes) -> Self:
        """
        Return a stream that continues from a state of ``export_state``.

        Raises:
            NativeError: the state is damaged, truncated, or of another version.
        """
        stream = cls()
        import_state(stream._context, state)
        return stream


def export_state(context: CData) -> bytes:
    """Export an ``md5_context``, as ``NativeMd5.export_state`` does."""
    state = _new(_STATE)
    return _buffer(state, lib.md5_export(context, state))[:]


def import_state(context: CData, state: bytes) -> None:
    """
    Set an ``md5_context`` to an exported state.

    Raises:
        NativeError: the state is damaged, truncated, or of another version.
    """
    if lib.md5_import(context, state, len(state)) != 0:
        problem = ffi.string(lib.md5_state_problem(state, len(state))).decode("ascii")
        raise NativeError(f"cannot resume from a saved MD5 state: {problem}; hash the file from its beginning")


def digest_many(messages: Sequence[Buffer], *, beside: Sequence[tuple[NativeMd5, Buffer]] = ()) -> list[bytes]:
    """
    Digest independent messages in one call without the interpreter lock.

    They are computed side by side, much faster than one after the other.

    Args:
        messages: each with one contiguous buffer, which must not change during the call.
        beside: streams to update in the same call, each with the bytes to append; no stream twice.

    Returns:
        The digests of the messages, in the same order.
    """
    if not beside and _are_short(messages):
        packed = _digest_joined(b"".join(messages), array("Q", map(len, messages)))
        return _cut(packed, 0)
    streams = [(stream._context, _from_buffer(data)) for stream, data in beside]  # noqa: SLF001 (same module)
    views = [_from_buffer(message) for message in messages]
    # Streams, usually the longest, come first. ``streams`` and ``views`` keep the memory alive.
    jobs = [(context, view, len(view)) for context, view in streams]
    jobs += [(_NO_STREAM, view, len(view)) for view in views]
    digests = _new(_DIGESTS, 16 * len(jobs))
    if _md5_batch(_new(_MESSAGES, jobs), len(jobs), digests) != 0:
        raise NativeError(SELF_TEST_FAILED)
    return _cut(_buffer(digests)[:], 16 * len(streams))


class LaneScheduler:
    """
    The lanes of one thread, which stay full between batches: ``md5_scheduler`` of native/md5_batch.h.

    Attributes:
        data: pointer for other calls of the C core.

    Raises:
        NativeError: the C core fails its self-test.
    """

    def __init__(self) -> None:
        self._memory = _new(_DIGESTS, lib.md5_scheduler_bytes())
        self.data = ffi.cast("md5_scheduler *", self._memory)
        if lib.md5_scheduler_init(self.data) != 0:
            raise NativeError(SELF_TEST_FAILED)

    def wait(self, unfinished: list[CData]) -> None:
        """Work until one of the counters of submitted work, each a ``size_t *``, is 0; there is at least one."""
        lib.md5_scheduler_wait(self.data, ffi.new("size_t *[]", unfinished), len(unfinished))

    def flush(self) -> None:
        """Finish all submitted work."""
        lib.md5_scheduler_flush(self.data)


def _are_short(messages: Sequence[Buffer]) -> TypeGuard[Sequence[bytes]]:
    """Return whether concatenating the messages is cheaper than passing the address of each."""
    if set(map(type, messages)) != {bytes}:
        return False
    return sum(map(len, cast("Sequence[bytes]", messages))) <= _SHORT_BYTES * len(messages)


def _cut(packed: bytes, start: int) -> list[bytes]:
    """Split concatenated digests, 64 at a time."""
    many = (len(packed) - start) // _MANY_DIGESTS.size * _MANY_DIGESTS.size
    digests = list(chain.from_iterable(_MANY_DIGESTS.iter_unpack(memoryview(packed)[start : start + many])))
    return digests + [packed[at : at + 16] for at in range(start + many, len(packed), 16)]


def digest_arena(arena: Buffer, size_bytes: int) -> bytes:
    """
    Digest consecutive messages of one length, without an object for each.

    Args:
        arena: one contiguous buffer.
        size_bytes: message size, at least 1; the last message may be shorter.

    Returns:
        The digests, 16 bytes each, concatenated.
    """
    view = _from_buffer(arena)
    whole, rest = divmod(len(view), size_bytes)
    return _digest_joined(view, array("Q", [size_bytes]) * whole + array("Q", [rest] * (rest > 0)))


def _digest_joined(data: CData | bytes, sizes_bytes: array[int]) -> bytes:
    count = len(sizes_bytes)
    digests = _new(_DIGESTS, 16 * count)
    if _md5_batch_joined(data, _from_buffer("uint64_t[]", sizes_bytes), count, digests) != 0:
        raise NativeError(SELF_TEST_FAILED)
    return _buffer(digests)[:]
