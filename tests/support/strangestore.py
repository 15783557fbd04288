"""
An S3 store that answers to order: objects without bytes, whose ETags and checksums are whatever a test says.

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

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Stated:
    """What the store says of an object; ``headers``: of the answer to HEAD, beside size and ETag."""

    size_bytes: int
    etag: str
    headers: Mapping[str, str] = field(default_factory=dict)


class StrangeStore:
    """
    ``with StrangeStore({"backup/a": Stated(...)}) as store: ... store.endpoint``.

    Args:
        objects: by key, of every bucket.

    Attributes:
        asked: how often what was asked: LIST, HEAD, GET.
    """

    def __init__(self, objects: Mapping[str, Stated]) -> None:
        self.objects = dict(objects)
        self.keys = sorted(self.objects)
        self.asked: Counter[str] = Counter()
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

    def write_page(self, prefix: str, start: int, most: int) -> bytes:
        """Write a part of a listing."""
        first = bisect_left(self.keys, prefix)
        keys = self.keys[first + start : first + start + most + 1]
        keys = keys[: next((at for at, key in enumerate(keys) if not key.startswith(prefix)), len(keys))]
        page, rest = keys[:most], keys[most:]
        contents = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>{one.size_bytes}</Size><ETag>&quot;{one.etag}&quot;</ETag></Contents>"
            for key, one in ((key, self.objects[key]) for key in page)
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
            self.send_error(403)
            return
        store.asked["LIST"] += 1
        start, most = (
            int(options.get(name, [default])[0])
            for name, default in (("continuation-token", "0"), ("max-keys", str(_PAGE)))
        )
        body = store.write_page(options.get("prefix", [""])[0], start, most)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        store = self.server.store
        store.asked["HEAD"] += 1
        found = store.objects.get(unquote(urlsplit(self.path).path).split("/", 2)[2])
        self.send_response(200 if found else 404)
        if found is not None:
            for name, value in {
                "ETag": f'"{found.etag}"',
                "Content-Length": str(found.size_bytes),
                **found.headers,
            }.items():
                self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""
