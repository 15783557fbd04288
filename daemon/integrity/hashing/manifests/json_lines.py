"""
Digests as objects, one per line: ``{"type":"sum","schema":1,"path":...,"size_bytes":...,"md5":...}``.

For a path that is not UTF-8, ``path`` shows its undecodable bytes backslash-escaped, and ``path_b64`` holds the whole
path. A piece of a file has ``offset`` and ``length`` as well; its digests are not those of the file, so pieces are not
manifest entries. Objects of other types are ignored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence

from integrity.hashing.algorithms import ALGORITHMS
from integrity.hashing.manifests.entries import IGNORED, Digests, Ignored, Piece, is_name, parse_hex
from integrity.hashing.stored_digests import Algorithm

# Created once: json.dumps would create one per line.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(path: bytes, size_bytes: int | None, digests: Digests, *, piece: Piece | None = None) -> bytes:
    """
    Return one line.

    Args:
        path: unescaped.
        size_bytes: of the file; None if unknown.
        digests: raw.
        piece: the part of the file that was digested; None for the whole.
    """
    fields: dict[str, object] = {"type": "sum", "schema": 1, **path_fields(path)}
    if size_bytes is not None:
        fields["size_bytes"] = size_bytes
    if piece is not None:
        fields["offset"], fields["length"] = piece
    fields.update((algorithm.name, digest.hex()) for algorithm, digest in digests.items())
    return encode_object(fields)


def encode_object(fields: Mapping[str, object]) -> bytes:
    """Return an object as a line."""
    return _encode(fields).encode() + b"\n"


def path_fields(path: bytes, name: str = "path") -> Mapping[str, str]:
    """Return a path as text, plus base64 if it is not UTF-8."""
    try:
        return {name: path.decode("utf-8")}
    except UnicodeDecodeError:
        encoded = base64.b64encode(path).decode("ascii")
        return {name: path.decode("utf-8", "backslashreplace"), f"{name}_b64": encoded}


def read_json(line: bytes, wanted: Sequence[Algorithm] = ()) -> tuple[bytes, int | None, Digests] | Ignored | None:
    """Parse a line: path, size, raw digests; None if it is malformed."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    if fields.get("type", "sum") != "sum":
        return IGNORED
    path, digests = _read_path(fields), _read_digests(fields, wanted)
    size = fields.get("size_bytes")
    is_size = size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0)
    if path is None or not digests or not is_size or "offset" in fields:
        return None
    return path, size, digests


def _read_path(fields: Mapping[str, object]) -> bytes | None:
    text, encoded = fields.get("path"), fields.get("path_b64")
    try:
        if isinstance(encoded, str):
            path = base64.b64decode(encoded, validate=True)
        elif isinstance(text, str):
            path = text.encode()
        else:
            return None
    except ValueError:
        return None
    return path if is_name(path) else None


def _read_digests(fields: Mapping[str, object], wanted: Sequence[Algorithm]) -> Digests | None:
    digests: dict[Algorithm, bytes] = {}
    for algorithm in wanted or ALGORITHMS:
        digits = fields.get(algorithm.name)
        if digits is None:
            continue
        digest = parse_hex(digits.encode("ascii", "replace"), algorithm) if isinstance(digits, str) else None
        if digest is None:
            return None
        digests[algorithm] = digest
    return digests
