"""
Seals distinguish a damaged row of the catalog from a damaged file (R9).

SQLite's own checks do not detect a bit flip inside a digest; such a row would be reported as rot of a healthy file. So
each row has a seal: 16 bytes of BLAKE3 over the inputs of a verdict, keyed if a key is configured. Sealed bytes, after
one byte for the kind (integers little-endian; block size -1 and digests of length 0 mean "none"):

    FILE    01, with a crc64nvme 04: token 16 | witness 33 | block size 8 | version 8
            | lengths: path 4, md5 1, xxh3 1, blake3 1 | these in order | crc64nvme, if there is one
    RUN     02: file id 8 | version 8 | run 8 | block count 8 | lengths: md5 4, xxh3 4 | these in order
            | crc64nvme, if there is any
    BYTES   03: label and parts, each after its length of 4
    ROW     05: literal of a Python tuple: name of the table, then the values of the row
    STATE   06, with a sighting 07: file id 8 | seal 16 | recorded 8 | verified 8 | boot 8 | suspect 1 | frozen 1
            | length of reason 1 | seen inode 8 and ctime 8, if there is a sighting | reason | how it was read;
            the smallest integer means "none"

The kind byte keeps a row from passing for one of another kind. CRCs were added later: rows without one keep their
seals. All fields before a CRC have a known length, so the rest of the message is the CRC.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from blake3 import blake3

SEAL_BYTES = 16
ROW_SEAL = "row_seal"

_KEY_CONTEXT = "integrity 2026 seals of catalog rows"
_FILE = struct.Struct("<B16sqqqqBqqIBBB")
_RUN = struct.Struct("<BqqqqII")
_STATE = struct.Struct("<Bq16sqqqBBB")
_SEEN = struct.Struct("<qq")
_NONE = -(1 << 63)


class Sealer:
    """
    Makes the seals of one catalog. Seals without a key detect accidents, seals with a key also manipulation.

    Attributes:
        hash_key: BLAKE3 key of 32 bytes; None: unkeyed.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.hash_key: bytes | None = None
        self._hash: Callable[[bytes], blake3] = blake3
        if key is not None:
            self.hash_key = blake3(key, derive_key_context=_KEY_CONTEXT).digest()
            self._hash = partial(blake3, key=self.hash_key)

    @property
    def key_check(self) -> str:
        """Return a value that identifies the key without revealing it."""
        return self.seal_parts(b"key", ()).hex()

    def _seal(self, message: bytes) -> bytes:
        return self._hash(message).digest(SEAL_BYTES)

    def seal_file(
        self,
        root_token: bytes,
        path: bytes,
        witness: Sequence[int],
        digests: Sequence[bytes | None],
        block_size_bytes: int | None,
        version: int,
    ) -> bytes:
        """Seal the baseline fields of a ``file`` row: a Witness, Digests, and so on."""
        md5, xxh3_128, blake3_, crc64nvme = digests
        md5, xxh3_128, blake3_ = md5 or b"", xxh3_128 or b"", blake3_ or b""
        return self._seal(
            _FILE.pack(
                0x01 if crc64nvme is None else 0x04,
                root_token,
                *witness,
                -1 if block_size_bytes is None else block_size_bytes,
                version,
                len(path),
                len(md5),
                len(xxh3_128),
                len(blake3_),
            )
            + path
            + md5
            + xxh3_128
            + blake3_
            + (crc64nvme or b"")
        )

    def seal_run(
        self,
        owner_id: int,
        version: int,
        run: int,
        block_count: int,
        md5: bytes,
        xxh3_128: bytes,
        crc64nvme: bytes = b"",
    ) -> bytes:
        """Seal one row of block digests of a file (or of a checkpoint: version -1)."""
        head = _RUN.pack(0x02, owner_id, version, run, block_count, len(md5), len(xxh3_128))
        return self._seal(head + md5 + xxh3_128 + crc64nvme)

    def seal_parts(self, label: bytes, parts: Iterable[bytes]) -> bytes:
        """Seal a label and a list of fields."""
        return self._seal(b"\x03" + b"".join(len(part).to_bytes(4, "little") + part for part in (label, *parts)))

    def seal_state(
        self,
        file_id: int,
        seal: bytes,
        recorded_at: int,
        reason: bytes,
        verified_at: int | None,
        read_how: bytes | None,
        boot_id: int | None,
        is_suspect: int,
        is_frozen: int,
        seen_inode: int | None = None,
        seen_ctime_ns: int | None = None,
    ) -> bytes:
        """Seal the fields of a ``file`` row that runs update, and the seal of its baseline."""
        head = _STATE.pack(
            0x06 if seen_inode is None else 0x07,
            file_id,
            seal,
            recorded_at,
            _NONE if verified_at is None else verified_at,
            _NONE if boot_id is None else boot_id,
            is_suspect,
            is_frozen,
            len(reason),
        )
        seen = b"" if seen_inode is None and seen_ctime_ns is None else _SEEN.pack(seen_inode, seen_ctime_ns)
        return self._seal(head + seen + reason + (read_how or b""))

    def bind(self, db: sqlite3.Connection) -> None:
        """Register ``row_seal`` on a connection, for the triggers and queries of ``row_seals``."""
        db.create_function(ROW_SEAL, -1, self.seal_row, deterministic=True)

    def seal_row(self, table: str, *values: float | bytes | None) -> bytes:
        """Seal the columns of any other row: integers, floats, bytes (text as UTF-8), and None."""
        if table == "file":
            try:
                return self.seal_state(*values)  # type: ignore[arg-type]
            except (TypeError, struct.error):
                pass  # a damaged row with values of wrong types: the seal below never matches
        return self._seal(b"\x05" + repr((table, *values)).encode())


def xor_seals(start: bytes, seals: Iterable[bytes]) -> bytes:
    """XOR seals into a running value of 16 bytes."""
    total = int.from_bytes(start, "little")
    for seal in seals:
        total ^= int.from_bytes(seal, "little")
    return total.to_bytes(SEAL_BYTES, "little")
