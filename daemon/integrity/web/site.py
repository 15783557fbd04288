"""
What all pages share: the configuration, the catalog, and the state of the service.

I1  The catalog is opened read-only, anew for each request, in the thread that answers it.
I2  All that one page says of the catalog is from one status. Collecting it takes a second per million files: a page
    that would wait for long shows the former one, with its time.
I3  The process waits for its threads when it ends: one that is killed inside SQLite aborts the interpreter.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from integrity.catalog.connection import Catalog
from integrity.catalog.root_meta import PastService, find_past_service
from integrity.config import default_config_path, load_config
from integrity.errors import AppError, CatalogError, ConfigError
from integrity.jobs.status import Status, find_status
from integrity.service.control.socket import find_daemon_of
from integrity.service.schedule.clock import local_zone, parse_windows
from integrity.service.startup import MemoryTrimmer
from integrity.views.service import ServiceView, ask_service
from integrity.web.rendering import Renderer

_log = logging.getLogger(__name__)
_PLACES = (
    ("/", "Overview"),
    ("/findings", "Findings"),
    ("/browse", "Files"),
    ("/runs", "Runs"),
    ("/copies", "Copies"),
    ("/alerts", "Alerts"),
    ("/history", "History"),
    ("/settings", "Settings"),
    ("/manual", "Manual"),
)
_LIVE_S = 2.0
_STATUS_S = 2.0
_STATUS_PAUSE = 10
"""Collecting takes at most one part in so many of the time."""

_STATUS_PATIENCE_S = 1.0
_SERVICE_PATIENCE_S = 1.0
_BUSY_TIMEOUT_S = 2.0


def _identify(path: bytes) -> tuple[int, int, int] | None:
    """Return inode, size and time of a file, which tell whether it was edited; None if it does not exist."""
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


class Site(Renderer):
    """What all pages share. The paths are those of the options ``--config`` and ``--catalog``."""

    def __init__(self, config_path: bytes | None, catalog_path: bytes | None) -> None:
        super().__init__(("integrity.web",), _PLACES, "integrity-web")
        self._config_path = config_path
        self._catalog_option = catalog_path
        self._lock = threading.Lock()
        self._live: tuple[float, ServiceView] | None = None
        self._status: Status | None = None
        self._collecting: threading.Thread | None = None
        self._fresh_until = -math.inf
        self._config_state = _identify(self.config_place)
        self.config = load_config(config_path)
        self._trimmer = MemoryTrimmer()
        self.templates.globals["config_place"] = self.config_place

    @property
    def has_actions(self) -> bool:
        """Whether ``[web] actions`` allows them."""
        return self.config.web.actions

    @property
    def config_place(self) -> bytes:
        """The file of the configuration, whether or not it exists."""
        return self._config_path or default_config_path()

    @property
    def catalog_path(self) -> bytes:
        return os.path.realpath(self._catalog_option or self.config.catalog)

    @contextmanager
    def open_catalog(self) -> Iterator[Catalog]:
        """
        Open the catalog for reading.

        Raises:
            CatalogError: and its kinds; a page says so.
        """
        with Catalog.open(self.catalog_path, writes=False, busy_timeout_s=_BUSY_TIMEOUT_S) as catalog:
            yield catalog

    def find_live(self) -> ServiceView:
        """Ask the service what it does; what it said within the last two seconds holds."""
        known = self._live
        if known is not None and time.monotonic() - known[0] < _LIVE_S:
            return known[1]
        with self._lock:
            if self._live is not known and self._live is not None:
                return self._live[1]  # another thread has just asked
            try:
                daemon = find_daemon_of(self.catalog_path, patience_s=_SERVICE_PATIENCE_S)
                view = ask_service(daemon, self.catalog_path, _SERVICE_PATIENCE_S, self._find_past_service)
            except CatalogError as error:
                view = ServiceView(None, str(error))
            self._live = (time.monotonic(), view)
        return view

    def _find_past_service(self) -> PastService | None:
        try:
            with self.open_catalog() as catalog, catalog.read() as connection:
                return find_past_service(connection, int(time.time()))
        except CatalogError:  # whoever reads the status is told of it
            return None

    def find_status(self) -> Status:
        """
        Return the status of everything, as of now if that can be had within a second.

        Raises:
            AppError: it was never collected, and can't be, or the catalog can't be read now.
        """
        with self.open_catalog():  # else what is known of it would hide that it is gone
            collecting = self.begin_collecting()
        if collecting is not None:
            collecting.join(None if self._status is None else _STATUS_PATIENCE_S)
        return self._status or self._collect()

    def begin_collecting(self) -> threading.Thread | None:
        """Collect the status in the background unless it is fresh; return the thread that does."""
        with self._lock:
            if self._collecting is None and time.monotonic() > self._fresh_until:
                self._collecting = threading.Thread(target=self._collect_quietly, name="status")
                self._collecting.start()
            return self._collecting

    def _collect(self) -> Status:
        self._reload_config()
        began_at = time.monotonic()
        with self.open_catalog() as catalog:
            found = find_status(
                catalog,
                self.config,
                [],
                find_windows=lambda: parse_windows(self.config.schedule.scrub, local_zone()),
            )
        took_s = time.monotonic() - began_at
        self._status, self._fresh_until = found, time.monotonic() + max(_STATUS_S, _STATUS_PAUSE * took_s)
        self._trimmer.job_ended()
        self._trimmer.trim(is_busy=False)
        return found

    def _reload_config(self) -> None:
        """Take over a configuration that was edited; one with errors waits until it is mended."""
        state = _identify(self.config_place)
        if state == self._config_state:
            return
        self._config_state = state
        try:
            self.config = load_config(self._config_path)
        except ConfigError as error:
            _log.warning("the configuration is left as it was: %s", error)

    def _collect_quietly(self) -> None:
        """Collect the status; while that fails the former one holds, with its time."""
        try:
            self._collect()
        except AppError as error:
            _log.warning("the status could not be collected: %s", error)
            self._fresh_until = time.monotonic() + _STATUS_S
        finally:
            self._collecting = None

    def forget_status(self) -> None:
        """Have the status collected anew with the next request: something was just decided."""
        self._fresh_until = -math.inf
        self._live = None
