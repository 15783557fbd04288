"""
Decide who may ask the service for what: by the user that the kernel reports for a connection.

The mode and group of the socket decide who may connect at all. ``MAY_ASK`` is the whole list of rights beyond that.
"""

from __future__ import annotations

import pwd
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from integrity.errors import ConfigError
from integrity.service.control.requests import Act, AskPicture
from integrity.service.control.wire import AskAhead, AskCovered, AskState, LendRoots, StopJob, Submit

if TYPE_CHECKING:
    from integrity.service.control.wire import Question

PAGE_USER = "integrity-web"
"""The user that the page, `integrity web`, runs as."""


class Role(Enum):
    """What a user is to the service."""

    TRUSTED = "root, or the service's own user"
    PAGE = "the user of the page"
    GROUP = "another user who may open the socket"


_COMMANDS = frozenset({Submit, LendRoots, StopJob, AskState, AskCovered, AskAhead})

MAY_ASK: Mapping[Role, frozenset[type[Question]]] = {
    Role.TRUSTED: _COMMANDS | {Act, AskPicture},
    Role.PAGE: frozenset({Submit, AskState, AskCovered, Act, AskPicture}),
    Role.GROUP: _COMMANDS,
}

_CHANGES = frozenset({Submit, Act})
"""What the page may ask only if its actions are switched on."""


def find_page_uid() -> int | None:
    """Return the uid of the page's user; None if there is no such user."""
    try:
        return pwd.getpwnam(PAGE_USER).pw_uid
    except KeyError:
        return None


def require_right(role: Role, question: Question, *, allows_actions: bool) -> None:
    """
    Check that a user may ask a question.

    Args:
        allows_actions: the configuration lets the page have things done.

    Raises:
        ConfigError: not; the message says what to do.
    """
    if type(question) not in MAY_ASK[role]:
        what = "be asked for that by the page" if role is Role.PAGE else "be asked for that by this user; use sudo"
        raise ConfigError(f"the service can't {what}")
    if role is Role.PAGE and type(question) in _CHANGES and not allows_actions:
        raise ConfigError(
            "actions of the page are switched off; to allow them set `actions = true` in the section [web] of the"
            " service's configuration, then: systemctl reload integrity"
        )
