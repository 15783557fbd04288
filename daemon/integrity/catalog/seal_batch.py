"""
Seal the rows of many new files in one call of the C core.

Importing this module raises ImportError if the extension cannot be loaded.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity._native import ffi, lib
from integrity.catalog.seal import SEAL_BYTES
from integrity.model import Readings

if TYPE_CHECKING:
    from integrity._native import CBuffer


class NewSeals(NamedTuple):
    """The seals of new rows in order, and the XOR of the baseline seals."""

    seals: list[bytes]
    state_seals: list[bytes]
    tally: bytes


def seal_new_files(
    key: bytes | None,
    root_token: bytes,
    first_id: int,
    paths: Sequence[bytes],
    readings: Readings,
    *,
    recorded_at: int,
    boot_id: int | None,
    reason: bytes,
) -> NewSeals | None:
    """
    Seal the first versions of files with ascending ids from ``first_id``, like ``Sealer`` does.

    Returns:
        None if the C core cannot seal them: a BLAKE3, a digest that only some files have, or a long path.
    """
    count, text = len(paths), b"\0".join(paths) + b"\0"
    md5s, xxh3_128s, blake3s, crc64s = readings.digests
    packed = [_pack(column) for column in (md5s, xxh3_128s, crc64s)]
    is_plain = not any(blake3s) and None not in packed and text.count(b"\0") == count
    if not is_plain or max(map(len, paths)) > lib.SEAL_BATCH_MOST_PATH_BYTES:
        return None
    held = [ffi.from_buffer("int64_t[]", array("q", column)) for column in readings.witnesses]
    digests = [ffi.from_buffer("uint8_t[]", column) if column else ffi.NULL for column in packed if column is not None]
    path_text, words = ffi.from_buffer("char[]", text), reason + readings.how.value.encode()
    files = ffi.new("seal_batch_files *", ((path_text, len(text), count), *held, *digests))
    token, reason_and_how = ffi.from_buffer("uint8_t[]", root_token), ffi.from_buffer("char[]", words)
    own_key = ffi.NULL if key is None else ffi.from_buffer("uint8_t[]", key)
    boot = lib.SEAL_BATCH_NONE if boot_id is None else boot_id
    terms = ffi.new(
        "seal_batch_terms *", (own_key, token, first_id, recorded_at, boot, reason_and_how, len(reason), len(words))
    )
    seals, state_seals = (ffi.new("uint8_t[]", count * SEAL_BYTES) for _ in range(2))
    tally = ffi.new("uint8_t[]", SEAL_BYTES)
    lib.seal_batch_new(terms, files, seals, state_seals, tally)
    return NewSeals(_unpack(ffi.buffer(seals)), _unpack(ffi.buffer(state_seals)), bytes(ffi.buffer(tally)))


def _pack(column: Sequence[bytes | None]) -> bytes | None:
    """Join digests; empty if no file has one, None if only some have."""
    digests = [digest for digest in column if digest is not None]
    return b"".join(digests) if len(digests) in (0, len(column)) else None


def _unpack(seals: CBuffer) -> list[bytes]:
    return [seals[at : at + SEAL_BYTES] for at in range(0, len(memoryview(seals)), SEAL_BYTES)]
