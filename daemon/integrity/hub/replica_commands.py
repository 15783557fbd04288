"""
The commands that a vote proposes, spelled for the box that they are to be run on.

What a box reports is text of anybody who has its token, and these commands are run on other boxes: a URL that could
name a program to run, or a host that is none, is not repeated.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from integrity import program
from integrity.config.copy_urls import Scheme, find_local_path, find_password, find_scheme, has_backend_options
from integrity.hub.replica_rows import SetMember
from integrity.paths import absolute, shell_word

_LONGEST_URL = 4096
_is_host = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]").fullmatch


def repair_command(damaged: SetMember, source: SetMember, path: bytes) -> str | None:
    """Return the command that repairs a file from another member; None if it is not known how to reach that."""
    url = find_url(source)
    if url is None:
        return None
    return program.stored_command("repair", absolute(damaged.path, path), "--from", shell_word(url))


def scrub_command(one: SetMember, path: bytes) -> str:
    """Return the command that verifies a file."""
    return program.stored_command("scrub", absolute(one.path, path))


def copy_command(to: SetMember, source: SetMember, path: bytes) -> str | None:
    """Return the command that copies a file from another member over SSH or a mount; None if neither reaches it."""
    url = find_url(source)
    if url is None:
        return None
    way, there = [], find_local_path(url)
    if there is None:
        if find_scheme(url) is not Scheme.SSH:
            return None
        parts = urlsplit(url)
        way = ["-e", shell_word(f"ssh -p {parts.port}")] if parts.port else []
        host = unquote(parts.netloc.rpartition(":")[0] if parts.port else parts.netloc)
        there = host.encode() + b":" + unquote_to_bytes(parts.path)
    # -s: the shell of the other machine does not read the name.
    words = ["rsync", "-a", "-s", "--mkpath", *way, shell_word(absolute(there, path))]
    return " ".join([*words, shell_word(absolute(to.path, path))])


def find_url(one: SetMember) -> str | None:
    """Return where other boxes can read a member; None if it says nothing that can be repeated."""
    if not one.url:
        guess = f"ssh://{one.hostname}{quote_from_bytes(one.path)}"
        return guess if _is_host(one.hostname) else None
    return one.url if _is_harmless(one.url) else None


def _is_harmless(url: str) -> bool:
    if len(url) > _LONGEST_URL or not url.isprintable() or find_password(url) or has_backend_options(url):
        return False
    if find_local_path(url) is not None or find_scheme(url) in (Scheme.S3, Scheme.RCLONE):
        return True
    if find_scheme(url) is not Scheme.SSH:
        return False
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    except ValueError:
        return False
    return _is_host(unquote(host)) is not None
