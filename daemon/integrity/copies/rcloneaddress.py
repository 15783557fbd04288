"""
Take a remote of rclone apart: ``NAME:PATH``, with options ``NAME,KEY=VALUE,...:PATH``, or ``:BACKEND,KEY=VALUE:PATH``.

Options may be passwords. On rclone's command line everybody on the machine could read them; in its environment only
its user can. rclone takes the options of remotes from there: RCLONE_CONFIG_NAME_KEY.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_NAME_OF_UNNAMED: Final = "integritycopy"  # for a remote that is described in the URL alone

_VALUE = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^,:"'][^,:]*|)"""
_OPTION = re.compile(rf",([A-Za-z0-9_]+)(?:=({_VALUE}))?(?=[,:])")
_NAME = re.compile(r"(:?)([^,:/]+)(?=,)")


class Invocation(NamedTuple):
    """
    How rclone is told of a remote.

    Attributes:
        spec: for its command line.
        environment: on top of that of this process.
    """

    spec: str
    environment: Mapping[str, str] = {}


def hide_options(spec: str) -> Invocation:
    """Move the options of a remote to the environment; what can't be understood stays on the command line."""
    start = _NAME.match(spec)
    if start is None:
        return Invocation(spec)
    colon, name = start[1], start[2]
    options: dict[str, str] = {"type": name} if colon else {}
    at = start.end()
    while found := _OPTION.match(spec, at):
        options[found[1]] = "true" if found[2] is None else _unquote(found[2])
        at = found.end()
    if spec[at : at + 1] != ":" or "\0" in spec:
        return Invocation(spec)
    named = _NAME_OF_UNNAMED if colon else name
    environment = {f"RCLONE_CONFIG_{named.upper()}_{key.upper()}": options[key] for key in options}
    return Invocation(f"{named}{spec[at:]}", environment)


def _unquote(value: str) -> str:
    if value[:1] in ('"', "'"):
        quote = value[0]
        return value[1:-1].replace(quote * 2, quote)
    return value
