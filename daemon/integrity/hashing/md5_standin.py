"""
``NativeMd5``'s interface over the standard library, used without the C core.

OpenSSL, which hashlib wraps, does not expose its state: saving or restoring it raises NativeError.
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
    """Hash a byte stream with MD5 as ``NativeMd5`` does, but without an exportable state."""

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
        """Return the 16-byte digest of everything so far; the stream can continue."""
        return self._hash.digest()

    def hexdigest(self) -> str:
        """Return the digest as 32 lower-case hexadecimal digits."""
        return self._hash.hexdigest()

    def copy(self) -> Self:
        """Return an independent stream with the same bytes so far."""
        clone = type(self).__new__(type(self))
        clone._hash = self._hash.copy()  # noqa: SLF001 (same class)
        return clone

    def reset(self) -> None:
        """Forget all bytes."""
        self._hash = hashlib.md5(usedforsecurity=False)

    def export_state(self) -> NoReturn:
        """Raise NativeError: only the C core can export a state."""
        raise NativeError(_RESUME_IS_OFF.format(verb="save"))

    @classmethod
    def import_state(cls, state: bytes) -> NoReturn:  # noqa: ARG003 (interface of NativeMd5)
        """Raise NativeError: only the C core can import a state."""
        raise NativeError(_RESUME_IS_OFF.format(verb="take up"))


def digest_many(messages: Sequence[Buffer], *, beside: Sequence[tuple[StandinMd5, Buffer]] = ()) -> list[bytes]:
    """Digest independent messages, and update streams, one after the other."""
    for stream, data in beside:
        stream.update(data)
    return [hashlib.md5(message, usedforsecurity=False).digest() for message in messages]
