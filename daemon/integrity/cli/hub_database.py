"""The database of the hub for its commands: where it is, who opens it, and the audit log of what they change."""

from __future__ import annotations

import getpass
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from integrity.errors import HubDatabaseError

if TYPE_CHECKING:
    from integrity.cli.session import Session
    from integrity.hub.database import Connection, HubDatabase

_FILE = b"hub.db"
_UNIT_USER = "integrity-hub"
_SYSTEM_FOLDER = b"/var/lib/integrity-hub"
"""What the unit has, and with it the commands of root."""


def open_database(session: Session, *, any_revision: bool = False) -> closing[HubDatabase]:
    """Open the database for a command that uses nothing else."""
    from integrity.hub.database import HubDatabase

    place = find_database(session)
    if not place.startswith("/") and urlsplit(place).username is None:
        _become_hub()
    return closing(HubDatabase.open(place, any_revision=any_revision))


def _become_hub() -> None:
    """Go on as the unit's user if this is root: PostgreSQL lets in who is known by the name of the role."""
    try:
        user = pwd.getpwnam(_UNIT_USER)
    except KeyError:  # there is no unit
        return
    if os.geteuid() == 0:
        os.environ["HOME"] = user.pw_dir  # libpq looks there for certificates
        os.initgroups(user.pw_name, user.pw_gid)
        os.setegid(user.pw_gid)
        os.seteuid(user.pw_uid)


@contextmanager
def changing(session: Session, verb: str, subject: str) -> Iterator[Connection]:
    """Change something, and note who did it."""
    from integrity.hub import audit

    with open_database(session) as database, database.transaction() as c:
        yield c
        who, at = getpass.getuser(), int(time.time())
        audit.record(c, at=at, who=who, address=audit.COMMAND_LINE, verb=verb, subject=subject, outcome="done")


def create_if_missing(session: Session) -> None:
    """Create an SQLite database with the first command that needs one; PostgreSQL's is created by ``hub migrate``."""
    place = find_database(session)
    if place.startswith("/") and not os.path.exists(place):
        from integrity.hub.database import HubDatabase
        from integrity.hub.migrate import migrate as run_migrations

        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        create_file(place)
        with closing(HubDatabase.open(place, any_revision=True)) as database:
            run_migrations(database)


def create_file(place: str) -> None:
    """Create an SQLite file for its owner only, who is that of the folder: SQLite gives the log the same rights."""
    folder = os.path.dirname(place)
    if not place.startswith("/") or os.path.exists(place) or not os.path.isdir(folder):
        return
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if os.geteuid() == 0:  # the folder may be that of the unit's user
        owner = os.stat(folder)
        os.chown(place, owner.st_uid, owner.st_gid)


def find_database(session: Session) -> str:
    """Return the URL of the database, or the path of the SQLite file."""
    given = session.config.hub_server.database
    if given:
        return given
    try:
        return os.path.join(find_folder(session), _FILE).decode()
    except UnicodeDecodeError as error:
        raise HubDatabaseError("the folder of the catalog is not UTF-8; set [hub_server] database") from error


def find_folder(session: Session) -> bytes:
    """Return the absolute path of the folder of the hub's files: the unit's, which is root's too, or the catalog's."""
    folder = os.environb.get(b"STATE_DIRECTORY", b"").partition(b":")[0]
    if not folder:
        is_system = os.geteuid() == 0 and not os.environb.get(b"XDG_STATE_HOME")
        folder = _SYSTEM_FOLDER if is_system else os.path.dirname(session.catalog_path)
    return os.path.abspath(folder)
