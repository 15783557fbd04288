"""
Default paths: system paths for root, XDG base folders for other users.

This module only builds names. It opens and creates nothing.
"""

from __future__ import annotations

import os

from integrity.errors import ConfigError


def default_config_path() -> bytes:
    if os.geteuid() == 0:
        return b"/etc/integrity/integrity.toml"
    return find_user_folder("XDG_CONFIG_HOME", b".config") + b"/integrity/integrity.toml"


def default_catalog_path() -> bytes:
    if os.geteuid() == 0:
        return b"/var/lib/integrity/catalog.db"
    return find_user_folder("XDG_STATE_HOME", b".local/state") + b"/integrity/catalog.db"


def default_runtime_folder() -> bytes:
    """
    Return the absolute path of the folder for locks and sockets. Its contents need not survive a reboot.

    Raises:
        ConfigError: there is no such folder, nor one for temporary files.
    """
    if os.geteuid() == 0:
        return b"/run/integrity"
    runtime = os.environb.get(b"XDG_RUNTIME_DIR", b"")
    if runtime.startswith(b"/"):
        return runtime + b"/integrity"
    # Over ssh or from cron the variable may be missing, but the command must still find the locks of the desktop
    # session. So logind's folder is preferred to one of our own.
    login = b"/run/user/%d" % os.geteuid()
    if os.path.isdir(login):
        return login + b"/integrity"
    import tempfile  # rarely needed, and slow to import

    try:
        folder = os.fsencode(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise ConfigError(
            f"no folder for locks and sockets: user {os.geteuid()} can write neither to /tmp nor to /var/tmp; set"
            " XDG_RUNTIME_DIR to a folder that only this user can write to"
        ) from error
    return folder + b"/integrity-%d" % os.geteuid()


def find_user_folder(variable: str, fallback: bytes) -> bytes:
    """
    Return an XDG base folder. Relative values are ignored (XDG base directory specification, "Basics").

    A user without a home, as containers have them, has "/" for one, as most of their programs assume.

    Args:
        variable: of the environment.
        fallback: the folder in the user's home where the variable is not set.
    """
    value = os.environb.get(os.fsencode(variable), b"")
    if value.startswith(b"/"):
        return value
    home = os.path.expanduser(b"~")
    return (home if home.startswith(b"/") else b"/").rstrip(b"/") + b"/" + fallback
