"""Who reports: the token of a box, in a file that only the service can read, and the number of its machine."""

from __future__ import annotations

import os
import re
import stat
from hashlib import blake2b

from integrity import program
from integrity.errors import ConfigError, show_path
from integrity.files.system_load import read_boot_uuid
from integrity.reporting.protocol import RUN_BYTES

_TOKEN = re.compile(r"integrity-box-[A-Za-z0-9_-]{20,200}")


def is_token(text: str) -> bool:
    """Return whether a text can be the token of a box."""
    return _TOKEN.fullmatch(text) is not None


def load_token(path: bytes) -> str:
    """
    Return the token in a file.

    Raises:
        ConfigError: the file can't be read, holds no token, or can be read by everybody.
    """
    if not path:
        raise ConfigError(f"[hub] has a `url` and no `token_file`; run: {program.command('hub join URL')}")
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(1000).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigError(f"can't read the token_file of [hub], {show_path(path)}: {error.strerror}") from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ConfigError(f"{show_path(path)}: others can read the token of this box: chmod 600 {show_path(path)}")
    if not is_token(text):
        raise ConfigError(
            f"{show_path(path)}: holds no token of a hub; get one there with `integrity hub add BOX`, then run:"
            f" {program.command('hub join URL')}"
        )
    return text


def read_machine(hostname: str) -> bytes:
    """
    Return the number of this machine: 16 bytes, others after it was started again.

    It is made of the id of the running boot, for clones of a disk have the same ``/etc/machine-id``, and of the name,
    for containers of one machine have the same boot.
    """
    text = f"{read_boot_uuid()} {hostname}".encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=RUN_BYTES, person=b"integrity-hub").digest()
