"""
An S3 store that answers to order: objects whose ETags and checksums are whatever a test says, with bytes or without.

For what no real server on this machine does: encryption whose ETags are no digests, checksums of every kind, and a
hundred thousand objects that nobody has to upload.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from support.servers import Answer, HttpServer, Request

_PAGE = "1000"


@dataclass(frozen=True, slots=True)
class Stated:
    """
    What the store says of an object.

    Args:
        headers: of the answer to HEAD, beside size and ETag.
        data: None: the store refuses to give it.
    """

    size_bytes: int
    etag: str
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytes | None = None

    @property
    def quoted(self) -> str:
        """The ETag as a header has it; one with marks of its own as it is."""
        return self.etag if '"' in self.etag else f'"{self.etag}"'


class StrangeStore(HttpServer):
    """
    ``with StrangeStore({"backup/a": Stated(...)}) as store: ... store.url``.

    Args:
        objects: by key, of every bucket.

    Attributes:
        asked: how often what was asked: LIST, HEAD, GET.
        read: keys whose bytes were given.
    """

    def __init__(self, objects: Mapping[str, Stated]) -> None:
        super().__init__(self._answer)
        self.objects = dict(objects)
        self.keys = sorted(self.objects)
        self.asked: Counter[str] = Counter()
        self.read: set[str] = set()

    def _answer(self, request: Request) -> Answer:
        url = urlsplit(request.path)
        options = parse_qs(url.query)
        if "list-type" in options:
            self.asked["LIST"] += 1
            start, most = int(options.get("continuation-token", ["0"])[0]), int(options.get("max-keys", [_PAGE])[0])
            prefix, delimiter = (options.get(name, [""])[0] for name in ("prefix", "delimiter"))
            return Answer(body=self._write_page(prefix, start, most, delimiter))
        self.asked[request.method] += 1
        key = unquote(url.path).split("/", 2)[2]
        found = self.objects.get(key)
        if found is None or (found.data is None and request.method == "GET"):
            return Answer(403 if found else 404)
        if request.method == "HEAD":
            return Answer(headers=(("ETag", found.quoted), *found.headers.items()), stated_bytes=found.size_bytes)
        return self._give(key, found, request.headers.get("Range"))

    def _give(self, key: str, found: Stated, asked: str | None) -> Answer:
        self.read.add(key)
        first, last = (asked or "bytes=0-").removeprefix("bytes=").split("-")
        data = (found.data or b"")[int(first) : int(last or found.size_bytes) + 1]
        headers = (
            ("ETag", found.quoted),
            ("Content-Range", f"bytes {first}-{int(first) + len(data) - 1}/{found.size_bytes}"),
            ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"),
        )
        return Answer(206 if asked else 200, data, headers)

    def _write_page(self, prefix: str, start: int, most: int, delimiter: str = "") -> bytes:
        """Write a part of a listing; with a delimiter all of one folder, and its folders."""
        first = bisect_left(self.keys, prefix)
        keys = self.keys[first + start : first + start + most + 1]
        keys = keys[: next((at for at, key in enumerate(keys) if not key.startswith(prefix)), len(keys))]
        folders: set[str] = set()
        if delimiter:
            most = len(keys)
            folders = {
                prefix + key[len(prefix) :].partition(delimiter)[0] for key in keys if delimiter in key[len(prefix) :]
            }
            keys = [key for key in keys if delimiter not in key[len(prefix) :]]
        page, rest = keys[:most], keys[most:]
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>{one.size_bytes}</Size><ETag>{escape(one.quoted)}</ETag></Contents>"
            for key, one in ((key, self.objects[key]) for key in page)
        )
        contents += "".join(
            f"<CommonPrefixes><Prefix>{quote(one)}{delimiter}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        more = f"<NextContinuationToken>{start + most}</NextContinuationToken>" if rest else ""
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{str(bool(rest)).lower()}</IsTruncated>{more}{contents}"
            "</ListBucketResult>"
        ).encode()
