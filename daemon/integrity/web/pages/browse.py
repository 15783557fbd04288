"""Look around in what is recorded: folders with their sums and a tree map, files as ``explain`` shows them."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from integrity.catalog.folder_sums import FolderSums, find_largest_files, find_listed
from integrity.catalog.roots import RootRecord, find_roots, get_folder_id
from integrity.errors import AppError, show_path
from integrity.jobs.explain import explain
from integrity.model import RootId
from integrity.paths import absolute
from integrity.units import format_duration, format_size
from integrity.views.explain import list_facts
from integrity.web.drawings import layout_tree_map
from integrity.web.pages.findings import collect_evidence
from integrity.web.query import read_at, read_bytes, read_raw_path
from integrity.web.rendering import quote_path
from integrity.words.text import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request

    from integrity.catalog.connection import Catalog
    from integrity.web.site import Site

_log = logging.getLogger(__name__)
_PAGE = 500
_TILES = 60
_MAP_WIDTH, _MAP_HEIGHT = 1000.0, 360.0
_SMALLEST_TILE = 3.0
_ANEW_S = 300.0
_DAY_S = 86400


class Place(NamedTuple):
    """A tile of the tree map: name, URL, color, whether damage below is marked, tooltip, and rectangle in percent."""

    name: str
    url: str
    css_class: str
    is_marked: bool
    tip: str
    x: float
    y: float
    width: float
    height: float


class KnownSums(NamedTuple):
    """The sums of a root's folders, and when they were added up: seconds UTC."""

    sums: FolderSums
    at: int


class BrowsePages:
    """The pages about folders and files. The sums of folders are added up in the background."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._sums: dict[RootId, KnownSums] = {}
        self._collecting: set[RootId] = set()
        self._lock = threading.Lock()

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/browse", self.show_roots),
            read_at("/browse/{root_id:number}", self.show_place),
            read_at("/browse/{root_id:number}/{path:path}", self.show_place),
        )

    def show_roots(self, request: Request) -> Response:
        """Show all roots; the only one is shown itself."""
        status = self._site.find_status()
        if len(status.roots) == 1:
            return RedirectResponse(f"/browse/{status.roots[0].root.id}", 307)
        return self._site.render(request, "roots.html", title="Files", read_at=status.at, roots=status.roots)

    def show_place(self, request: Request) -> Response:
        number = int(request.path_params["root_id"])
        path = read_raw_path(request, f"/browse/{number}")
        with self._site.open_catalog() as catalog:
            with catalog.read() as connection:
                root = next((one for one in find_roots(connection) if one.id == number), None)
                if root is None:
                    raise HTTPException(404)
                is_folder = not path or get_folder_id(connection, root.id, path) is not None
            known = self._find_sums(root.id)
            if not is_folder and (known is None or known.sums.get(path) is None):
                return self._show_file(request, catalog, root, path)
            return self._show_folder(request, catalog, root, path, known)

    def _show_file(self, request: Request, catalog: Catalog, root: RootRecord, path: bytes) -> Response:
        story = explain(catalog, self._site.config, absolute(root.path, path))
        if not story.is_known:
            raise HTTPException(404)
        return self._site.render(
            request,
            "file.html",
            title=show_path(os.path.basename(path)),
            root=root,
            crumbs=list(find_crumbs(root, path)),
            story=story,
            file_path=absolute(root.path, path),
            evidence=collect_evidence(story),
            rows=list(list_facts(story)),
        )

    def _show_folder(
        self, request: Request, catalog: Catalog, root: RootRecord, path: bytes, known: KnownSums | None
    ) -> Response:
        now = int(time.time())
        folders_after = read_bytes(request, "folders")
        files_after = read_bytes(request, "files")
        folders = [] if known is None else known.sums.find_below(path, after=folders_after, limit=_PAGE + 1)
        with catalog.read() as connection:
            files = find_listed(connection, root.id, path, now, after=files_after, limit=_PAGE + 1)
            largest = find_largest_files(connection, root.id, path, now, limit=_TILES)
        promise_s = self._site.config.settings_for(root.path).verify_every_s
        items = (
            []
            if known is None
            else [
                MapItem(show_path(os.path.basename(one.path)) + "/", one.path, one.bytes, one.oldest_at, one.problems)
                for one in known.sums.find_largest(path, _TILES)
            ]
        )
        items += [
            MapItem(show_path(one.name), os.path.join(path, one.name), one.size_bytes, one.checked_at, one.is_frozen)
            for one in largest
        ]
        return self._site.render(
            request,
            "folder.html",
            title=show_path(os.path.basename(path) or root.path),
            root=root,
            crumbs=list(find_crumbs(root, path)),
            whole=None if known is None else known.sums.get(path),
            sums_at=None if known is None else known.at,
            folders=folders[:_PAGE],
            files=files[:_PAGE],
            parent=path,
            more=_find_more(folders, files),
            tiles=list(lay_out(root, items, now, promise_s)),
            promise=format_duration(promise_s),
        )

    def _find_sums(self, root_id: RootId) -> KnownSums | None:
        """Return the sums of a root's folders as they are known; have them added up if they are old or missing."""
        with self._lock:
            known = self._sums.get(root_id)
            is_fresh = known is not None and time.time() - known.at < _ANEW_S
            if is_fresh or root_id in self._collecting:
                return known
            self._collecting.add(root_id)
        thread = threading.Thread(target=self._collect, args=(root_id,), name="sums")
        thread.start()
        if known is None:
            thread.join(1.0)  # a root of up to some 100,000 files has its sums at once
        return self._sums.get(root_id)

    def _collect(self, root_id: RootId) -> None:
        now = int(time.time())
        try:
            with self._site.open_catalog() as catalog, catalog.read() as connection:
                found = KnownSums(FolderSums.collect(connection, root_id, now), now)
            self._sums[root_id] = found  # the former ones end with the last request that uses them
        except AppError as error:
            _log.warning("the folders of root %d could not be added up: %s", root_id, error)
        finally:
            with self._lock:
                self._collecting.discard(root_id)


def find_crumbs(root: RootRecord, path: bytes) -> Iterable[tuple[str, str]]:
    """Yield name and URL of the root and of each folder down to a place."""
    yield show_path(root.path), f"/browse/{root.id}"
    parts = path.split(b"/") if path else []
    for number, part in enumerate(parts, 1):
        yield show_path(part), f"/browse/{root.id}/{quote_path(b'/'.join(parts[:number]))}"


class MapItem(NamedTuple):
    """What the tree map may show: a file, or a folder, whose name ends with a slash; with its oldest check."""

    name: str
    path: bytes
    size_bytes: int
    checked_at: int | None
    problems: int


def lay_out(root: RootRecord, items: Iterable[MapItem], now: int, promise_s: int) -> Iterable[Place]:
    largest = sorted((item for item in items if item.size_bytes > 0), key=lambda item: -item.size_bytes)[:_TILES]
    w, h = _MAP_WIDTH, _MAP_HEIGHT
    for tile in layout_tree_map([float(item.size_bytes) for item in largest], w, h):
        if tile.width < _SMALLEST_TILE or tile.height < _SMALLEST_TILE:
            continue
        item = largest[tile.number]
        is_folder = item.name.endswith("/")
        problems = f", {count(item.problems, 'problem')}" if item.problems else ""
        yield Place(
            item.name,
            f"/browse/{root.id}/{quote_path(item.path)}",
            "problem" if item.problems and not is_folder else find_age(item.checked_at, now, promise_s),
            is_folder and item.problems > 0,
            f"{item.name}: {format_size(item.size_bytes)}{problems}",
            *(round(100 * part, 3) for part in (tile.x / w, tile.y / h, tile.width / w, tile.height / h)),
        )


def find_age(checked_at: int | None, now: int, promise_s: int) -> str:
    """Return the class of the color of how long ago something was verified."""
    if checked_at is None:
        return "never"
    age = now - checked_at
    if age > promise_s:
        return "overdue"
    return "day" if age <= _DAY_S else "week" if age <= 7 * _DAY_S else "kept"


def _find_more(folders: Sequence[object], files: Sequence[object]) -> str:
    asked = {}
    if len(folders) > _PAGE:
        asked["folders"] = os.fsdecode(folders[_PAGE - 1].path)  # type: ignore[attr-defined]
    if len(files) > _PAGE:
        asked["files"] = os.fsdecode(files[_PAGE - 1].name)  # type: ignore[attr-defined]
    return f"?{urlencode(asked, errors='surrogateescape')}" if asked else ""
