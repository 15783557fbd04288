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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000


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


class StrangeStore:
    """
    ``with StrangeStore({"backup/a": Stated(...)}) as store: ... store.endpoint``.

    Args:
        objects: by key, of every bucket.

    Attributes:
        asked: how often what was asked: LIST, HEAD, GET.
        read: keys whose bytes were given.
    """

    def __init__(self, objects: Mapping[str, Stated]) -> None:
        self.objects = dict(objects)
        self.keys = sorted(self.objects)
        self.asked: Counter[str] = Counter()
        self.read: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _Answers)
        self._server.store = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> StrangeStore:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def write_page(self, prefix: str, start: int, most: int, delimiter: str = "") -> bytes:
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


class _Server(ThreadingHTTPServer):
    store: StrangeStore


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        store, url = self.server.store, urlsplit(self.path)
        options = parse_qs(url.query)
        if "list-type" not in options:
            store.asked["GET"] += 1
            self._give(unquote(url.path).split("/", 2)[2])
            return
        store.asked["LIST"] += 1
        start, most = (
            int(options.get(name, [default])[0])
            for name, default in (("continuation-token", "0"), ("max-keys", str(_PAGE)))
        )
        prefix, delimiter = (options.get(name, [""])[0] for name in ("prefix", "delimiter"))
        body = store.write_page(prefix, start, most, delimiter)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _give(self, key: str) -> None:
        found = self.server.store.objects.get(key)
        if found is None or found.data is None:
            self.send_error(403 if found else 404)
            return
        self.server.store.read.add(key)
        asked = self.headers.get("Range")
        first, last = (asked or "bytes=0-").removeprefix("bytes=").split("-")
        data = found.data[int(first) : int(last or found.size_bytes) + 1]
        self.send_response(206 if asked else 200)
        self.send_header("ETag", found.quoted)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(data) - 1}/{found.size_bytes}")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_HEAD(self) -> None:
        store = self.server.store
        store.asked["HEAD"] += 1
        found = store.objects.get(unquote(urlsplit(self.path).path).split("/", 2)[2])
        self.send_response(200 if found else 404)
        if found is not None:
            for name, value in {
                "ETag": found.quoted,
                "Content-Length": str(found.size_bytes),
                **found.headers,
            }.items():
                self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""
