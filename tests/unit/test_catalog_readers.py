"""Whether a catalog is opened to its folder's group; what members see then: ``faults/test_catalog_group.py``."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.own_files import share_with_group

GROUP = 54_321


@pytest.mark.root
@pytest.mark.parametrize(
    ("mode", "expected"), [(0o750, 0o640), (0o700, 0o600), (0o755, 0o600), (0o770, 0o600), (0o711, 0o600)]
)
def test_only_a_closed_folder_that_a_group_may_read_is_meant_to_be_read(
    tmp_path: Path, mode: int, expected: int
) -> None:
    """One that was made for its owner only, too, once the service has started on it."""
    place = tmp_path / "state" / "catalog.db"
    place.parent.mkdir()
    os.chown(place.parent, -1, GROUP)
    place.parent.chmod(mode)
    Catalog.create(str(place)).close()
    place.chmod(0o600)
    share_with_group(os.fsencode(place))

    assert expected == stat.S_IMODE(place.stat().st_mode)
    assert expected == 0o600 or GROUP == place.stat().st_gid
