"""
Default paths: system paths for root, XDG base folders for other users.

This module only builds names. It opens and creates nothing.
"""

from __future__ import annotations

import os


def default_config_path() -> bytes:
    """Return the absolute path of the config file that is read if none is given."""
    if os.geteuid() == 0:
        return b"/etc/integrity/integrity.toml"
    return _user_folder("XDG_CONFIG_HOME", b".config") + b"/integrity/integrity.toml"


def default_catalog_path() -> bytes:
    """Return the absolute path of the catalog that is used if none is given."""
    if os.geteuid() == 0:
        return b"/var/lib/integrity/catalog.db"
    return _user_folder("XDG_STATE_HOME", b".local/state") + b"/integrity/catalog.db"


def default_runtime_folder() -> bytes:
    """Return the absolute path of the folder for locks and sockets. Its contents need not survive a reboot."""
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

    return os.fsencode(tempfile.gettempdir()) + b"/integrity-%d" % os.geteuid()


def _user_folder(variable: str, fallback: bytes) -> bytes:
    """Return an XDG base folder. Relative values are ignored (XDG base directory specification, "Basics")."""
    value = os.environb.get(os.fsencode(variable), b"")
    return value if value.startswith(b"/") else os.path.expanduser(b"~") + b"/" + fallback
