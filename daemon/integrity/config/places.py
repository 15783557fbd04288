"""
Where things are unless somebody says otherwise: one place for the system (root), one for each user (XDG).

Only names are made here; nothing is opened or created.
"""

from __future__ import annotations

import os


def default_config_path() -> bytes:
    """Return the absolute path of the config file that is read when none is named."""
    if os.geteuid() == 0:
        return b"/etc/integrity/integrity.toml"
    return _user_folder("XDG_CONFIG_HOME", b".config") + b"/integrity/integrity.toml"


def default_catalog_path() -> bytes:
    """Return the absolute path of the catalog that is used when none is named."""
    if os.geteuid() == 0:
        return b"/var/lib/integrity/catalog.db"
    return _user_folder("XDG_STATE_HOME", b".local/state") + b"/integrity/catalog.db"


def default_runtime_folder() -> bytes:
    """Return the absolute path of the folder for locks and sockets, which need not outlive a boot."""
    if os.geteuid() == 0:
        return b"/run/integrity"
    runtime = os.environb.get(b"XDG_RUNTIME_DIR", b"")
    if runtime.startswith(b"/"):
        return runtime + b"/integrity"
    # A command run over ssh or from cron may lack the variable; it must meet the locks of the desktop's session all the
    # same, so the place that logind makes goes before a folder of our own.
    login = b"/run/user/%d" % os.geteuid()
    if os.path.isdir(login):
        return login + b"/integrity"
    import tempfile  # seldom needed, and not cheap

    return os.fsencode(tempfile.gettempdir()) + b"/integrity-%d" % os.geteuid()


def _user_folder(variable: str, fallback: bytes) -> bytes:
    """Return an XDG base folder; a relative value is to be ignored (XDG base directory specification, "Basics")."""
    value = os.environb.get(os.fsencode(variable), b"")
    return value if value.startswith(b"/") else os.path.expanduser(b"~") + b"/" + fallback
