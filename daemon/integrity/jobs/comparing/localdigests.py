"""
Does a file's content have a digest that a copy states? For digests that are not kept: the file is read once for all.

The same pass tells whether the file is what was recorded, so it verifies the file as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from integrity.copies.etags import PartsHasher, guess_part_bytes, list_parts, split_evenly
from integrity.copies.protocol import Kind, Published
from integrity.files.buffers import Buffers
from integrity.files.read import ReadMode
from integrity.hashing.algorithms import BLAKE3, CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXH64, XXH128
from integrity.hashing.digests import FileHasher, Want, pieces
from integrity.jobs.contents import compare_content
from integrity.model import Reading

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun

_BUFFER_BYTES = 8 << 20
_ALGORITHMS = {
    Kind.MD5: MD5,
    Kind.SHA1: SHA1,
    Kind.SHA256: SHA256,
    Kind.SHA512: SHA512,
    Kind.XXH64: XXH64,
    Kind.XXH3_128: XXH128,
    Kind.BLAKE3: BLAKE3,
    Kind.CRC32: CRC32,
    Kind.CRC32C: CRC32C,
    Kind.CRC64NVME: CRC64NVME,
}


class FileMatch(NamedTuple):
    """
    What a file's content has to do with what is recorded and with what a copy states.

    Attributes:
        is_recorded: it is what is recorded.
        matches: for each stated digest whether it has it; None where that can't be told.
    """

    is_recorded: bool
    matches: tuple[bool | None, ...]

    @property
    def is_match(self) -> bool | None:
        """Say whether the content is the copy's; None where none of the digests can tell."""
        known = [match for match in self.matches if match is not None]
        return all(known) if known else None


class _Hasher(Protocol):
    def update(self, data: Buffer, /) -> object: ...

    def digest(self) -> bytes: ...


def match_file(run: RootRun, record: FileRecord, published: Sequence[Published]) -> FileMatch:
    """
    Read a recorded file from its disk and hold it against its record and against what a copy states.

    Raises:
        ReadError: of the kind that fits.
    """
    reader = run.reader(ReadMode.DISK)
    block_bytes = record.block_size_bytes or run.settings.block_size_bytes
    want = Want(xxh3_128=True, block_xxh3_128=True)
    with Buffers(_BUFFER_BYTES, 1) as buffers, reader.open(record.path) as file:
        own = FileHasher(want, file.size_bytes, block_bytes)
        others = [_make_hashers(one, file.size_bytes) for one in published]
        for segment in file.segments(buffers):
            own.feed(segment)
            for piece in pieces(segment):
                for hasher in (hasher for hashers in others for hasher in hashers):
                    hasher.update(piece)
        witness = file.finish()
        digests = own.digests()
        reading = Reading(witness, digests, own.take_blocks()[1], file.how, file.bytes_read)
    run.counts.bytes_read += reading.bytes_read
    with run.catalog.read() as connection:
        difference = compare_content(connection, run.catalog.sealer, record, reading)
    matches = (_is_match(one, hashers, witness.size_bytes) for one, hashers in zip(published, others, strict=True))
    return FileMatch(difference.is_same, tuple(matches))


def _make_hashers(published: Published, size_bytes: int) -> list[_Hasher]:
    """Make what computes a digest; several where it is not known how a store's parts were cut."""
    if published.kind is not Kind.MD5_OF_PARTS:
        make: Callable[[], _Hasher] = _ALGORITHMS[published.kind].find_constructor()
        return [make()]
    parts = list_parts(size_bytes, published)
    if parts is not None:
        return [PartsHasher(parts)]
    return [PartsHasher(split_evenly(size_bytes, guess)) for guess in guess_part_bytes(size_bytes, published.parts)]


def _is_match(published: Published, hashers: Sequence[_Hasher], size_bytes: int) -> bool | None:
    if any(hasher.digest() == published.value for hasher in hashers):
        return True
    is_guess = published.kind is Kind.MD5_OF_PARTS and list_parts(size_bytes, published) is None
    return None if is_guess or not hashers else False
