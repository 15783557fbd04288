"""Take an ``ssh://`` URL apart."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from integrity.errors import ConfigError, show_path


class Address(NamedTuple):
    """
    Where a copy is that SSH reaches.

    Attributes:
        host: a name or address, or a Host of the ssh config.
        user: None leaves it to the ssh config.
        port: None leaves it to the ssh config.
        folder: absolute, or relative to the user's home folder; bytes as they stand over there.
    """

    host: str
    user: str | None
    port: int | None
    folder: bytes

    @property
    def shown(self) -> str:
        """Write the URL for people; there is nothing secret in it."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        folder = self.folder if self.folder.startswith(b"/") else b"/~/" + self.folder
        return f"ssh://{user}{host}{port}{show_path(folder)}"


def parse_address(url: str) -> Address:
    """
    Take ``ssh://[USER@]HOST[:PORT]/FOLDER`` apart.

    Bytes that a URL cannot hold are written ``%XX``; ``/~/FOLDER`` is below the user's home folder.

    Raises:
        ConfigError: it is no such URL, or there is a password in it. The message holds nothing of the URL then.
    """
    form = "write ssh://USER@HOST/FOLDER, with :PORT behind HOST where it is not 22"
    try:
        parts = urlsplit(url, allow_fragments=False)
        host, user, port, password = parts.hostname, parts.username, parts.port, parts.password
    except ValueError as error:
        raise ConfigError(f"the ssh:// URL of the copy can't be read: {error}; {form}") from error
    if password is not None:
        raise ConfigError(
            "the ssh:// URL of the copy has a password in it, where it can be read by others:"
            " take it out, and log in with a key (ssh-keygen, ssh-copy-id) or the ssh agent"
        )
    if not host or parts.query:
        raise ConfigError(f"the ssh:// URL of the copy has {'a ?' if host else 'no host'} in it; {form}")
    folder = unquote_to_bytes(parts.path.encode("utf-8", "surrogateescape"))
    if not folder or b"\0" in folder:
        raise ConfigError(f"the ssh:// URL of the copy names no folder; {form}")
    if folder == b"/~" or folder.startswith(b"/~/"):
        folder = folder[3:].lstrip(b"/") or b"."
    return Address(unquote(host), unquote(user) if user else None, port, _without_slash(folder))


def _without_slash(folder: bytes) -> bytes:
    return folder.rstrip(b"/") or b"/"
