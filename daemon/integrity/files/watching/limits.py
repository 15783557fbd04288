"""Say which limits of the kernel hold here, and what they would have to be."""

from __future__ import annotations

from typing import NamedTuple

_QUEUE = "fs.inotify.max_queued_events"

# A limit for all users, and one of the user namespace that a container may have; the smaller one holds.
_WATCHES = ("fs.inotify.max_user_watches", "user.max_inotify_watches")
_INSTANCES = ("fs.inotify.max_user_instances", "user.max_inotify_instances")

_WATCH_STEP = 65_536


class Limit(NamedTuple):
    """A setting of the kernel."""

    name: str  # as sysctl(8) takes it
    value: int


def get_watch_limit() -> Limit:
    """Get how many folders this user's programs may watch together."""
    return _get_smallest(_WATCHES)


def advise_watches(unwatched: int) -> str:
    """Say what to do so that some more folders can be watched."""
    limit = get_watch_limit()
    # Rounded up: each folder that is made later needs one more, and each costs the kernel about 1 KiB at most.
    needed = -(-(limit.value + unwatched) // _WATCH_STEP) * _WATCH_STEP
    return f"all watches that this user may have are used: {_advise(limit, needed)}"


def advise_instances() -> str:
    """Say what to do so that one more queue of events can be opened."""
    limit = _get_smallest(_INSTANCES)
    return (
        f"this user's programs have no inotify instance left, or this one no file descriptor (LimitNOFILE=): "
        f"{_advise(limit, limit.value * 2)}"
    )


def advise_queue() -> str:
    """Say what to do so that a longer burst of changes is kept."""
    limit = _get_smallest((_QUEUE,))
    return f"if it happens again: {_advise(limit, limit.value * 4)}"


def _advise(limit: Limit, needed: int) -> str:
    return (
        f"{limit.name} is {limit.value}, raise it: sysctl -w {limit.name}={needed} "
        "(to keep it, write it to a file in /etc/sysctl.d)"
    )


def _get_smallest(names: tuple[str, ...]) -> Limit:
    return min((limit for name in names if (limit := _find(name))), key=lambda limit: limit.value)


def _find(name: str) -> Limit | None:
    try:
        with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
            return Limit(name, int(file.read()))
    except FileNotFoundError:
        return None  # a kernel without user namespaces has no limits of theirs
