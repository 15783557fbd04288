"""How the program was installed is seen from its environment, and each kind is removed in its own way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from integrity.installation import describe_removal

UNINSTALL = "integrity service uninstall"


@pytest.mark.parametrize(
    ("name", "mark", "expected"),
    [
        ("integrity", "pyvenv.cfg", "rm -r {}"),
        (".integrity", "pyvenv.cfg", "rm -r {}"),
        ("tools", "pyvenv.cfg", f"{sys.executable} -m pip uninstall integrity-nas"),
        ("usr", "lib", f"{sys.executable} -m pip uninstall integrity-nas"),
        ("integrity-nas", "pipx_metadata.json", "pipx uninstall integrity-nas"),
        ("integrity-nas", "uv-receipt.toml", "uv tool uninstall integrity-nas"),
    ],
)
def test_removal_fits_the_environment(name: str, mark: str, expected: str, tmp_path: Path) -> None:
    """An environment that is named for another purpose is not removed whole."""
    prefix = tmp_path / name
    prefix.mkdir()
    (prefix / "pyvenv.cfg").touch()
    (prefix / mark).touch()
    if mark == "lib":
        (prefix / "pyvenv.cfg").unlink()

    assert f"{UNINSTALL} && {expected.format(prefix)}" == describe_removal(UNINSTALL, str(prefix))
    assert expected.format(prefix) == describe_removal(prefix=str(prefix))
