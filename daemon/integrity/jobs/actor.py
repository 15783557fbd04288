"""Name the person for whom a command works, for the history of actions."""

from __future__ import annotations

import os
import pwd

from integrity.errors import printable
from integrity.model import Actor

COMMAND_LINE = "command line"


def find_user() -> Actor:
    """Return the user of this process; under sudo also the user who called it."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = "unknown"
    caller = os.environ.get("SUDO_USER", "") if uid == 0 else ""
    by = f", sudo from {printable(caller)[:64]}" if caller else ""
    return Actor(f"{name} (uid {uid}{by})", COMMAND_LINE)
