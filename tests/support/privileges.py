"""Being nobody in particular for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drop root's rights for the time of the block; who is not root has none to drop. Descriptors stay open."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)  # the effective capabilities go and come with it: capabilities(7)
    try:
        yield
    finally:
        os.seteuid(0)
