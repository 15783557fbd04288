"""Where a configured path leads: what realpath says, unless something on the way does not answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.config.parsers import resolve
from support.faultfs import FaultFS, Rule


@pytest.mark.parametrize(
    "path", ["plain", "link", "link/../plain", "chain/below/./deep", "nowhere/at/all", "loop/x", "plain//below/", ".."]
)
def test_path_is_resolved_as_realpath_does(tmp_path: Path, path: str) -> None:
    """Links, chains of them, loops, names that are not there."""
    (tmp_path / "plain/below/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("plain/below")
    (tmp_path / "chain").symlink_to(tmp_path / "second")
    (tmp_path / "second").symlink_to("./plain")
    (tmp_path / "loop").symlink_to("loop")
    whole = os.fsencode(f"{tmp_path}/{path}")

    assert os.path.realpath(whole) == resolve(whole)


@pytest.mark.root
def test_path_beyond_what_hangs_is_taken_as_it_is_written(faulty: FaultFS, tmp_path: Path) -> None:
    """A link to a folder on a dead server still leads there."""
    (faulty.folder / "photos").mkdir()
    (tmp_path / "link").symlink_to(faulty.folder / "photos")
    rule = faulty.add(Rule("*", is_hung=True))
    try:
        assert faulty.path("photos") == resolve(os.fsencode(tmp_path / "link"), patience_s=1.0)
    finally:
        faulty.clear(rule)
