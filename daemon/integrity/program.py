"""
How this program is called by who reads its messages: the beginning of every command that it prints.

After an installation into a virtual environment the command is often not on PATH, and another program of the same name
may be. So a printed command begins with the plain name only if PATH leads to this program, else with its full path. It
repeats ``--config`` and ``--catalog`` wherever a plain shell would use others, without which it would be about other
files.

I1  Commands that are stored begin with the plain name; ``spell_command`` adapts them when they are shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache

NAME = "integrity"
_SUDO_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``secure_path`` of sudo, as Debian and its relatives set it."""


def _list_nothing() -> Iterable[str | bytes]:
    return ()


_list_options: Callable[[], Iterable[str | bytes]] = _list_nothing


def repeat_options(list_options: Callable[[], Iterable[str | bytes]]) -> None:
    """Have every advised command repeat the global options that ``list_options`` returns; bytes are paths."""
    global _list_options
    _list_options = list_options


def command(*words: str | bytes) -> str:
    """Return a command of this program as it can be typed. ``words``: text as it is, bytes are paths to be quoted."""
    return " ".join([find_program(), *_show(_list_options()), *_show(words)])


def sudo_command(*words: str | bytes, is_default: bool = False) -> str:
    """
    Return the same for root; sudo searches only the folders of the system.

    Args:
        words: as above.
        is_default: it is about root's own configuration and catalog, so the options here are not repeated.
    """
    options = () if is_default else _list_options()
    return " ".join(["sudo", find_program(_SUDO_PATH), *_show(options), *_show(words)])


def stored_command(*words: str | bytes) -> str:
    """Return a command in the form that is stored."""
    return " ".join([NAME, *_show(words)])


def spell_command(stored: str) -> str:
    """Return a stored command as it can be typed; one of another program is returned as it is."""
    name, _, rest = stored.partition(" ")
    return command(rest) if name == NAME else stored


def _show(words: Iterable[str | bytes]) -> Iterable[str]:
    from integrity.paths import shell_path  # here, for --help does without

    return (word if isinstance(word, str) else shell_path(word) for word in words)


@cache
def find_program(path: str | None = None) -> str:
    """Return the words that start this program: its name if ``path`` (of the environment: None) leads to it."""
    script = _find_script()
    if script is None:
        return f"{_quote(sys.executable)} -m {NAME}"
    folders = os.get_exec_path() if path is None else path.split(os.pathsep)
    places = (os.path.join(folder, NAME) for folder in folders)  # shutil.which takes 2 ms to import
    found = next((one for one in places if os.path.isfile(one) and os.access(one, os.X_OK)), None)
    is_on_path = found is not None and os.path.samefile(found, script)
    return NAME if is_on_path else _quote(os.path.abspath(script))


def _quote(path: str) -> str:
    from integrity.paths import shell_word  # here, for --help does without

    return shell_word(path)


def _find_script() -> str | None:
    """Return the command that was called or, after ``python -m``, the one that is installed beside the interpreter."""
    called = sys.argv[0]
    if os.path.basename(called) != NAME or not os.path.isfile(called):
        called = os.path.join(os.path.dirname(sys.executable), NAME)
    return called if os.path.isfile(called) else None
