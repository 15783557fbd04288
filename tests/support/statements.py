"""What SQLite is asked through a catalog, told before it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from integrity.catalog.connection import Catalog


@contextmanager
def traced(catalog: Catalog, told: Callable[[str], object]) -> Iterator[None]:
    """Tell each statement; whoever is told may use other catalogs, for at a BEGIN this one holds no lock yet."""

    def tell(_: object, statement: str, __: object) -> bool:
        told(statement)
        return True

    with catalog.read() as c:
        driver = c.driver
    driver.exec_trace = tell
    try:
        yield
    finally:
        driver.exec_trace = None
