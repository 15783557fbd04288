"""
Read the objects of findings as boxes reported them.

They come over the network from whoever has the token of a box: only what is known is taken from them, and only values
of the right type.
"""

from __future__ import annotations

from collections.abc import Mapping

from integrity.errors import ProtocolError, printable
from integrity.model import ByteRange, Certainty
from integrity.reporting import protocol
from integrity.words.findings import damaged_places

JsonObject = Mapping[str, object]

_PLACES_KEPT = 1000
"""Blocks or ranges of one finding that are repeated; its box has all of them."""


def read_body(text: str) -> JsonObject:
    """Read what is stored; what is no object is an empty one."""
    try:
        return protocol.decode(text.encode("utf-8", "surrogatepass"))
    except ProtocolError:
        return {}


def write_box_finding(number: int, kind: str, body: JsonObject) -> JsonObject:
    """Write what a box found, for the evidence of a finding of the hub."""
    certainty = read_certainty(body)
    message = body.get("message")
    return {
        "id": number,
        "kind": kind,
        "certainty": certainty.value if certainty else None,
        "blocks": _read_blocks(body),
        "block_size_bytes": _read_int(body, "block_size_bytes"),
        "ranges": _read_ranges(body),
        "opened_at": body.get("opened_at") if isinstance(body.get("opened_at"), str) else None,
        "message": printable(message) if isinstance(message, str) else None,
    }


def find_places(body: JsonObject) -> str | None:
    """Return which blocks or bytes of a file are damaged, in words."""
    return damaged_places(_read_blocks(body), _read_int(body, "block_size_bytes"), _read_ranges(body))


def read_certainty(body: JsonObject) -> Certainty | None:
    """Return how sure a box is of a finding; None if it does not say."""
    word = body.get("certainty")
    return Certainty(word) if isinstance(word, str) and word in set(Certainty) else None


def _read_int(body: JsonObject, name: str) -> int | None:
    value = body.get(name)
    return value if protocol.is_number(value) and value > 0 else None


def _read_blocks(body: JsonObject) -> list[int]:
    blocks = body.get("blocks")
    return [one for one in blocks if protocol.is_number(one)][:_PLACES_KEPT] if isinstance(blocks, list) else []


def _read_ranges(body: JsonObject) -> list[ByteRange]:
    ranges = body.get("ranges")
    pairs = ranges if isinstance(ranges, list) else []
    return [
        (one[0], one[1])
        for one in pairs[:_PLACES_KEPT]
        if isinstance(one, list) and len(one) == 2 and all(map(protocol.is_number, one))
    ]
