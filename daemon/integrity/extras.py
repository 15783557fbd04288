"""
Say how to install what an extra adds, in the form that fits how this program was installed.

The distribution on the public index that is called like the command, `integrity`, is another author's. No hint may name
it: whoever followed that hint would run a stranger's code in a service that can read every file.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from integrity.errors import ConfigError
from integrity.installation import DISTRIBUTION, Installation, find_installation

_WEB = (
    "starlette",
    "uvicorn",
    "jinja2",
    "itsdangerous",
    "argon2",
    "python_multipart",
    "sse_starlette",
    "prometheus_client",
    "markdown_it",
)
_HUB = ("alembic", "msgspec", "psycopg", "sqlalchemy", "zstandard")
_PREFIX = "file://"


def require_web() -> None:
    """
    Require what the page needs.

    Raises:
        ConfigError: the extra `web` is not installed, or only in parts.
    """
    _require(_WEB, "the page", "web")


def require_hub() -> None:
    """
    Require what the hub needs.

    Raises:
        ConfigError: the extra `hub` is not installed, or only in parts.
    """
    _require((*_WEB, *_HUB), "the hub", "hub")


def _require(names: tuple[str, ...], what: str, extra: str) -> None:
    if any(find_spec(name) is None for name in names):
        raise ConfigError(f"{what} needs packages that are not installed; {how_to_install(extra)}")


def how_to_install(extra: str) -> str:
    """Return a clause that says how to install the packages of an extra, with the command if there is one."""
    is_uv = find_installation() is Installation.UV
    if find_spec("pip") is None and not is_uv:
        return (
            "this installation has no pip, as that of a Debian package or a container image, and was made without them:"
            f" install integrity into a virtual environment of its own, with its extra `{extra}`"
        )
    checkout, is_editable = _find_checkout()
    source = shlex.quote(f"{checkout or DISTRIBUTION}[{extra}]")
    python = shlex.quote(sys.executable)
    pip = f"uv pip install --python {python}" if is_uv else f"{python} -m pip install"
    return f"install them: {pip} {'-e ' if is_editable else ''}{source}"


def _find_checkout() -> tuple[str | None, bool]:
    """Return the folder that this program was installed from, if it is still there, and whether that is editable."""
    from importlib.metadata import PackageNotFoundError, distribution  # here, for most commands say nothing of extras

    try:
        text = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    origin = json.loads(text) if text else {}
    url, details = origin.get("url", ""), origin.get("dir_info")
    if details is None or not url.startswith(_PREFIX):
        return None, False
    folder = unquote(urlsplit(url).path)
    if not os.path.exists(os.path.join(folder, "pyproject.toml")):
        return None, False
    return folder, bool(details.get("editable"))
