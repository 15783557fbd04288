"""
The calls of boxes, version 1: which there are, what each takes and returns, and their description in OpenAPI.

``hub.api`` serves these calls and no others. Bodies are described by the classes that read them (``hub.reported``).
Calls for shared trees are not among them, see docs/shared-trees.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from integrity.hub.reported import (
    BoxHeartbeat,
    ComparedFolder,
    FolderLine,
    FolderQuestion,
    MessageLine,
    MessagesHeader,
    PlainHeader,
    ReportedFinding,
    TreeQuestion,
)
from integrity.reporting.forms import Number, describe_form
from integrity.reporting.protocol import JSON_LINES, MOST_BODY_BYTES, JsonObject
from integrity.web.json_pages import JsonInterface, describe_answer

PREFIX = "/hub/v1"

_ROOT = {"root_id": "number of the root on the box"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCallForm:
    """
    A call.

    Attributes:
        path: below the prefix.
        summary: what it is for.
        head: JSON schema of its body, or of the first line of it.
        line: JSON schema of the further lines; None: the body is one object.
        answer: JSON schema of what is returned.
    """

    path: str
    summary: str
    head: JsonObject
    line: JsonObject | None = None
    answer: JsonObject

    @property
    def body(self) -> JsonObject:
        """The content of its request."""
        if self.line is None:
            return {"application/json": {"schema": self.head}}
        return {JSON_LINES: {"schema": {"type": "array", "prefixItems": [self.head], "items": self.line}}}


def _answer(**values: JsonObject) -> JsonObject:
    return {"type": "object", "properties": values, "required": [*values]}


_NUMBER = describe_form(Number)
_NUMBERS: JsonObject = {"type": "array", "items": _NUMBER}
_TEXT: JsonObject = {"type": "string"}
_MESSAGE = describe_form(MessageLine)
_BODIES: JsonObject = {"anyOf": [describe_form(ReportedFinding), {"type": "object"}]}

CALLS = {
    "heartbeat": BoxCallForm(
        path="heartbeat",
        summary="How the box is, and all its roots",
        head=describe_form(BoxHeartbeat),
        answer=_answer(
            now=_NUMBER,
            last={"anyOf": [_NUMBER, {"type": "null"}]},
            trees=_NUMBERS,
            refused={"type": "array", "items": _TEXT},
        ),
    ),
    "messages": BoxCallForm(
        path="messages",
        summary="Messages of a stream, numbered without gaps",
        head=describe_form(MessagesHeader),
        line={**_MESSAGE, "properties": {**_MESSAGE["properties"], "body": _BODIES}},  # type: ignore[dict-item]
        answer=_answer(last=_NUMBER),
    ),
    "compare": BoxCallForm(
        path="trees/{root_id:number}/compare",
        summary="Which folders of a tree the hub does not have as the box has them",
        head=describe_form(PlainHeader),
        line=describe_form(ComparedFolder),
        answer=_answer(own=_NUMBERS, below=_NUMBERS),
    ),
    "buckets": BoxCallForm(
        path="trees/{root_id:number}/buckets",
        summary="Digests of the files of a folder, by which a box finds those that the hub does not have as they are",
        head=describe_form(FolderQuestion),
        answer=_answer(buckets=_TEXT),
    ),
    "folders": BoxCallForm(
        path="trees/{root_id:number}/folders",
        summary="Folders with their files, or parts of them",
        head=describe_form(PlainHeader),
        line=describe_form(FolderLine),
        answer=_answer(stored=_NUMBER),
    ),
    "settle": BoxCallForm(
        path="trees/{root_id:number}/settle",
        summary="Whether the hub has a whole tree",
        head=describe_form(TreeQuestion),
        answer=_answer(settled={"type": "boolean"}),
    ),
}

_INTERFACE = JsonInterface(
    title="integrity hub: calls of boxes",
    description=(
        "The report protocol. Each box has a token of its own, `Authorization: Bearer TOKEN`. A body has a"
        f" Content-Length, at most {MOST_BODY_BYTES:,} bytes, and may be compressed (`Content-Encoding: zstd`). JSON"
        " lines are described as an array whose first item is the first line. Texts hold bytes that are not UTF-8 as"
        " lone surrogates. More, and what each error means to a box: docs/hub-api.md"
    ),
    server=PREFIX,
    error=_answer(error=_TEXT, message=_TEXT),
    errors=(400, 404, 409, 411, 413, 415, 429, 503, 507),
    unauthorized="the token is unknown or was revoked",
)


def describe_calls() -> JsonObject:
    paths: dict[str, JsonObject] = {}
    for call in CALLS.values():
        path, answer = f"/{call.path}", describe_answer(call.summary, call.answer)
        described = _INTERFACE.describe_operation(path, call.summary, answer, (), _ROOT)
        paths[path] = {"post": {**described, "requestBody": {"required": True, "content": call.body}}}
    return _INTERFACE.describe(paths)
