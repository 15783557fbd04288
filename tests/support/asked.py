"""Requests that note which parameters of their query a page asks for."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request


class AskedParameters(QueryParams):
    """An empty query that notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__("")
        self.asked: set[str] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        """Note the name."""
        self.asked.add(key)
        return super().get(key, default)


def make_noting_request(path: str, places: dict[str, object]) -> tuple[Request, set[str]]:
    """Return a request without a query, and the names that its reader asks for."""
    query = AskedParameters()
    raw_path = path.encode()
    request = Request({"type": "http", "method": "GET", "path": path, "raw_path": raw_path, "path_params": places})
    request._query_params = query  # where Starlette keeps what it has parsed
    return request, query.asked
