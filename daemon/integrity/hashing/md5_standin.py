"""
The face of ``NativeMd5`` over the standard library, for where the C core is not in use.

OpenSSL, which hashlib wraps, gives its state to nobody: what needs it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Self

from integrity.errors import NativeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_RESUME_IS_OFF = (
    "cannot {verb} an MD5 state: in-file resume is off because the C core is not in use "
    "(`integrity --version` says why); hash the file from its beginning"
)


class StandinMd5:
    """Hash a stream of bytes with MD5, as ``NativeMd5`` does, but without a state that can be saved."""

    __slots__ = ("_hash",)

    name: Final = "md5"
    digest_size: Final = 16
    block_size: Final = 64

    def __init__(self, data: Buffer = b"") -> None:
        self._hash = hashlib.md5(data, usedforsecurity=False)

    def update(self, data: Buffer) -> None:
        """Append the bytes of one contiguous buffer."""
        self._hash.update(data)

    def digest(self) -> bytes:
        """Return the 16 bytes for everything so far; the stream can go on."""
        return self._hash.digest()

    def hexdigest(self) -> str:
        """Return the digest as 32 lower-case hexadecimal digits."""
        return self._hash.hexdigest()

    def copy(self) -> Self:
        """Return a second stream that has seen the same bytes and goes its own way from here."""
        twin = type(self).__new__(type(self))
        twin._hash = self._hash.copy()  # noqa: SLF001 (of the same class)
        return twin

    def reset(self) -> None:
        """Forget all bytes, as if newly made."""
        self._hash = hashlib.md5(usedforsecurity=False)

    def export_state(self) -> NoReturn:
        """Refuse: only the C core can save a state."""
        raise NativeError(_RESUME_IS_OFF.format(verb="save"))

    @classmethod
    def import_state(cls, state: bytes) -> NoReturn:  # noqa: ARG003 (the face of NativeMd5)
        """Refuse: only the C core can take up a state."""
        raise NativeError(_RESUME_IS_OFF.format(verb="take up"))


def digest_many(messages: Sequence[Buffer], *, beside: Sequence[tuple[StandinMd5, Buffer]] = ()) -> list[bytes]:
    """Digest messages that have nothing to do with each other, and update streams, one after the other."""
    for stream, data in beside:
        stream.update(data)
    return [hashlib.md5(message, usedforsecurity=False).digest() for message in messages]
