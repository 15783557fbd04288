"""A damaged row of the catalog is announced by the service, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Box
from support.flips import damage_rows
from support.service import Service


@pytest.mark.files(1, is_recorded=True)
def test_service_tells_of_it_and_works_on(integrity: Box, root: Path) -> None:
    """One damaged row is no reason to put the catalog aside, and none to keep silent."""
    damage_rows(integrity.catalog, "UPDATE run SET bytes_read = 5 WHERE id = 1")
    integrity.configure(f'[[root]]\npath = "{root}"\n')
    with Service(integrity) as service:
        service.stop()

    (found,) = integrity.run("--json", "findings", expect=1).findings
    assert "catalog_damaged" == found["kind"]
    assert "row 1 of run is not as it was written" in str(found["message"])
