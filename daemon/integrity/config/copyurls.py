"""
Secrets in the URLs of copies: refused where a better place for them exists, else not shown.

Which URLs there are, and what they mean, is for ``copies`` to know.
"""

from __future__ import annotations

import re


def find_password(url: str) -> str | None:
    """Say what is wrong with a URL that has a password or key in it, without a word of the URL; None if it has none."""
    scheme, _, rest = url.partition("://")
    before, at, _ = re.split(r"[/?]", rest, maxsplit=1)[0].rpartition("@")
    if scheme == "s3" and at:
        return "must have nothing before an @: credentials belong where AWS programs look for them (~/.aws/credentials)"
    if ":" in before and not scheme.startswith("rclone:"):
        return "must have no password in it, where others can read it: log in with a key (ssh-keygen, ssh-copy-id)"
    return None


def has_backend_options(url: str) -> bool:
    """Say whether a URL describes a remote of rclone itself, or changes one: such options can name commands to run."""
    return re.match(r"rclone:(:|[^:/]*,)", url) is not None


def hide_secrets(url: str) -> str:
    """Leave out the options of a remote of rclone that is described in the URL itself: passwords are among them."""
    return re.sub(r"^(rclone::?[^,:/]*),.*:", r"\1,...:", url, count=1, flags=re.DOTALL)
