"""How this program was installed, and so how it is removed."""

from __future__ import annotations

import os
import shlex
import sys
from enum import StrEnum
from importlib.util import find_spec

DISTRIBUTION = "integrity-nas"
_PACKAGE_LIST = f"/var/lib/dpkg/info/{DISTRIBUTION}.list"
_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv")
"""Made by docker and podman in each container; other kinds of containers are installed like machines."""


class Installation(StrEnum):
    """The ways to install it."""

    VENV = "venv"  # by pip into a virtual environment
    SYSTEM = "system"  # by pip beside other packages of an interpreter
    PIPX = "pipx"
    UV = "uv"
    DEBIAN = "debian"
    CONTAINER = "container"  # the image, which has the Debian package


def find_installation(prefix: str = sys.prefix) -> Installation:
    """Return how this program was installed; ``prefix``: of its environment."""
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return Installation.UV
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return Installation.PIPX
    if find_spec("pip") is None and os.path.exists(_PACKAGE_LIST):
        return Installation.CONTAINER if any(map(os.path.exists, _OF_CONTAINERS)) else Installation.DEBIAN
    return Installation.VENV if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else Installation.SYSTEM


def describe_removal(uninstall: str = "", prefix: str = sys.prefix) -> str:
    """
    Return the commands that remove the service and the program; the records stay.

    Args:
        uninstall: the command that removes the service, where that does not go with the program; empty: there is none.
        prefix: as above.
    """
    found = find_installation(prefix)
    if found is Installation.DEBIAN:
        return f"apt remove {DISTRIBUTION}"
    if found is Installation.CONTAINER:
        return "docker compose down"
    program = _describe_program_removal(found, prefix)
    return f"{uninstall} && {program}" if uninstall else program


def _describe_program_removal(found: Installation, prefix: str) -> str:
    if found is Installation.PIPX:
        return f"pipx uninstall {DISTRIBUTION}"
    if found is Installation.UV:
        return f"uv tool uninstall {DISTRIBUTION}"
    # An environment of another name may hold more than this program.
    if found is Installation.VENV and "integrity" in os.path.basename(prefix):
        return f"rm -r {shlex.quote(prefix)}"
    return f"{shlex.quote(sys.executable)} -m pip uninstall {DISTRIBUTION}"
