"""What SQLite is asked through a catalog, told before it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from integrity.catalog.compiled_sql import driver_of
from integrity.catalog.connection import Catalog


@contextmanager
def traced(catalog: Catalog, told: Callable[[str], object]) -> Iterator[None]:
    """Tell each statement; whoever is told may use other catalogs, for at a BEGIN this one holds no lock yet."""
    with catalog.read() as c:
        driver = driver_of(c)
    driver.set_trace_callback(told)
    try:
        yield
    finally:
        driver.set_trace_callback(None)
