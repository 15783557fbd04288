"""Catalogs of older schemas, which programs of their time wrote: plain SQL in ``tests/data/catalogs``."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from integrity.catalog.db import Connection
from support import AnyPath

_DUMPS = Path(__file__).parents[1] / "data/catalogs"
REVISIONS = sorted(path.stem for path in _DUMPS.glob("*.sql"))
ROOT = Path("/srv/nas/photos")
"""What they are about. It need not be there."""


def put_older(path: AnyPath, revision: str) -> None:
    """Write the catalog of an older schema."""
    with closing(Connection(os.fsencode(path), "mode=rwc", is_checked=False)) as c:
        c.driver.execute((_DUMPS / f"{revision}.sql").read_text(encoding="utf-8"))
        c.run("PRAGMA journal_mode = WAL")
