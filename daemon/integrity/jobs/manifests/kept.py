"""The digests that the catalog keeps of a file, under the names that manifests know."""

from __future__ import annotations

from integrity.hashing.algorithms import BLAKE3, MD5, XXH128, Algorithm
from integrity.model import Digests

KEPT = frozenset({MD5, XXH128, BLAKE3})


def known_digests(digests: Digests) -> dict[Algorithm, bytes]:
    """List the digests that there are of a file, under the names that manifests know."""
    found = {MD5: digests.md5, XXH128: digests.xxh3_128, BLAKE3: digests.blake3}
    return {algorithm: digest for algorithm, digest in found.items() if digest is not None}
