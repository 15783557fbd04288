"""
Whether the machine goes down in order, so that it can be told from a power cut afterwards (R2).

systemd tells a service that it ends, but not why, and who runs without rights may not ask the manager. So the unit asks
for us when it is stopped, and sends a SIGPWR ahead of the SIGTERM if the machine goes down. Whoever starts the service
in another way can do the same. Without the signal nothing is marked, and rot that is found later is called uncertain.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity.catalog import boots
from integrity.errors import AppError
from integrity.files.boot import read_boot_uuid
from integrity.files.mountstate import is_still_mounted

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog

_log = logging.getLogger(__name__)

GOES_DOWN = signal.SIGPWR


def mark_clean_stop(open_catalog: Callable[[], Catalog], now: int) -> None:
    """Write down that this boot ends in order; whatever program of ours still runs in it takes that back."""
    try:
        with open_catalog() as catalog, catalog.transaction() as connection:
            uuid = read_boot_uuid()
            mounts = boots.find_last_mounts(connection, uuid)
            there = [number for number, mount in mounts.items() if is_still_mounted(mount)]
            boots.mark_clean_stop(connection, uuid, now, there)
    except AppError as error:  # the worst that follows is rot that is called less certain than it is
        _log.warning("clean_stop_not_marked: %s", error)
        return
    _log.info("the machine goes down in order")
