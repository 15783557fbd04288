"""
Read the objects of the protocol into classes, and describe them: a class is all that is written of an object.

Strings that stand for bytes have types of their own here, for JSON may hold lone surrogates (I4 of the protocol), so
objects are decoded by ``protocol.decode`` first.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import Meta

from integrity.errors import ProtocolError, printable
from integrity.reporting.protocol import LARGEST, JsonObject

LONGEST_PATH = 4096
_LONGEST_TEXT = 1000

T = TypeVar("T")

Number = Annotated[int, Meta(ge=0, le=LARGEST)]
Signed = Annotated[int, Meta(ge=-LARGEST - 1, le=LARGEST)]


class OneLine(str):
    """A text of one line; what is not printable is escaped, and what is too long cut."""

    __slots__ = ()
    schema: ClassVar[JsonObject] = {"type": "string"}

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(printable(text[:_LONGEST_TEXT]))


class Hex(bytes):
    """16 bytes, which are written in hex."""

    schema: ClassVar[JsonObject] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}

    @classmethod
    def read(cls, text: str) -> Self:
        data = bytes.fromhex(text)
        if len(data) != 16:
            raise ValueError("16 bytes in hex are needed")
        return cls(data)


class PathBytes(bytes):
    """A path."""

    schema: ClassVar[JsonObject] = {"type": "string"}

    @classmethod
    def read(cls, text: str) -> Self:
        path = text.encode("utf-8", "surrogateescape")  # UnicodeEncodeError is a ValueError
        if b"\0" in path or len(path) > LONGEST_PATH:
            raise ValueError(f"a path of at most {LONGEST_PATH:,} bytes is needed")
        return cls(path)


def read_form(kind: type[T], value: object) -> T:
    """Read an object, which may have more values than its class, or raise ProtocolError."""
    try:
        return msgspec.convert(value, kind, dec_hook=_read)
    except (msgspec.ValidationError, UnicodeError) as error:  # the latter: a lone surrogate in place of a known word
        raise ProtocolError(printable(str(error))) from error


def _read(kind: Any, value: object) -> object:
    if kind is object:  # any value
        return value
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return kind.read(value)


def describe_form(kind: type) -> JsonObject:
    (schema,), parts = msgspec.json.schema_components(
        [kind],
        schema_hook=lambda one: dict(one.schema),  # type: ignore[attr-defined]
        ref_template="{name}",
    )
    return _put_in(schema, parts)  # type: ignore[no-any-return]


def _put_in(schema: Any, parts: dict[str, Any]) -> Any:
    """Put the parts of a schema where they are referred to: an array is shorter to read than three lists of names."""
    match schema:
        case {"$ref": name}:
            return _put_in({key: value for key, value in parts[name].items() if key != "title"}, parts)
        case dict():
            return {key: _put_in(value, parts) for key, value in schema.items()}
        case list():
            return [_put_in(value, parts) for value in schema]
    return schema
