"""Nothing that is damaged is missed, and nobody is accused whose files are as they should be."""

from __future__ import annotations

import pytest

from support.cli import Box
from support.preload import Shims
from truth.campaign import WAYS, Campaign, Way
from truth.disks import DISKS

pytestmark = pytest.mark.root

_WAYS = {way.name: way for way in WAYS}
_SELECTED = [
    ("ext4", "scrub without scan first, cached"),
    pytest.param("xfs", "while scrubbing, not cached", marks=pytest.mark.first),
]


def _play(disk: str, way: Way, integrity: Box, shims: Shims) -> None:
    result = Campaign(disk, way, integrity, shims).run()
    print(f"{disk}, {way.name}: {result.describe()}")
    assert not result.unknown, result.describe()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("disk", "way"), _SELECTED)
def test_truth_is_told(disk: str, way: str, integrity: Box, shims: Shims) -> None:
    """A part of the matrix."""
    _play(disk, _WAYS[way], integrity, shims)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("way", _WAYS)
def test_truth_is_told_everywhere(disk: str, way: str, integrity: Box, shims: Shims) -> None:
    """All of the matrix."""
    _play(disk, _WAYS[way], integrity, shims)
