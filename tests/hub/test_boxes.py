"""Boxes, their tokens, and the audit log."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from integrity.errors import ConfigError
from integrity.hub import audit, boxes, schema
from integrity.hub.database import HubDatabase
from integrity.hub.members import Grants


def find_by_token(c: sa.Connection, token: str) -> boxes.Box | None:
    return boxes.load_tokens(c).get(boxes.hash_token(token))


def test_added_box_is_found_by_its_token(hub_database: HubDatabase) -> None:
    """A token names its box, and no other text does."""
    with hub_database.transaction() as c:
        token = boxes.add_box(c, "nas-berlin", 100, Grants())
        boxes.add_box(c, "nas-paris", 101, Grants())
        found = find_by_token(c, token)

        assert token.startswith("integrity-box-")
        assert len("integrity-box-") + 43 == len(token)
        assert found is not None
        assert ("nas-berlin", None) == found[1:]
        added = c.execute(sa.select(schema.box.c.created_at).where(schema.box.c.id == found.id)).scalar()
        assert 100 == added
        for wrong in ("", "integrity-box-", token[:-1], token + "x", token.upper(), "' OR 1=1 --", "\udcff"):
            assert None is find_by_token(c, wrong)
            assert not boxes.has_token(c, found.id, wrong)
        assert boxes.has_token(c, found.id, token)


def test_token_is_not_stored(hub_database: HubDatabase) -> None:
    """What is stored does not contain the token."""
    with hub_database.transaction() as c:
        token = boxes.add_box(c, "nas", 100, Grants())
        row = c.execute(sa.select(schema.box)).one()

    assert token not in repr(row)
    assert token.removeprefix("integrity-box-") not in repr(row)


def test_name_is_given_once(hub_database: HubDatabase) -> None:
    """Two boxes can't have one name."""
    with hub_database.transaction() as c:
        boxes.add_box(c, "nas", 100, Grants())
        with pytest.raises(ConfigError, match="hub revoke nas"):
            boxes.add_box(c, "nas", 101, Grants())


@pytest.mark.parametrize("name", ["", "-nas", "a b", "a/b", "nas\n", "<b>", "x" * 65])
def test_odd_name_is_refused(hub_database: HubDatabase, name: str) -> None:
    """A name is what a command line and a page can show as it is."""
    with hub_database.transaction() as c, pytest.raises(ConfigError):
        boxes.add_box(c, name, 100, Grants())


def test_revoked_box_keeps_its_number_when_it_is_added_again(hub_database: HubDatabase) -> None:
    """A new token belongs to the same box, and the old one to nobody."""
    with hub_database.transaction() as c:
        old = boxes.add_box(c, "nas", 100, Grants())
        first = find_by_token(c, old)
        boxes.revoke_box(c, "nas", 200)
        revoked = find_by_token(c, old)
        new = boxes.add_box(c, "nas", 300, Grants())
        second = find_by_token(c, new)

        assert first is not None
        assert revoked is not None
        assert 200 == revoked.revoked_at
        assert first == second
        assert None is find_by_token(c, old)
        assert (False, True) == tuple(boxes.has_token(c, first.id, token) for token in (old, new))


def test_unknown_box_can_not_be_revoked(hub_database: HubDatabase) -> None:
    """Revoking needs a box that has a token."""
    with hub_database.transaction() as c:
        boxes.add_box(c, "nas", 100, Grants())
        boxes.revoke_box(c, "nas", 200)
        for name in ("nas", "other"):
            with pytest.raises(ConfigError, match="hub list"):
                boxes.revoke_box(c, name, 300)


def test_audit_keeps_entries_in_order_and_printable(hub_database: HubDatabase) -> None:
    """Entries are returned newest first, in pages, and can't move a cursor."""
    with hub_database.transaction() as c:
        for at in range(5):
            audit.record(
                c,
                at=at,
                who="box:nas",
                address="192.0.2.1",
                verb="join",
                subject="\x1b[31m<b>\udcff\0",
                outcome="joined",
            )
        page = audit.find_entries(c, limit=2)
        rest = audit.find_entries(c, before=page[-1].id)

    assert [4, 3] == [entry.at for entry in page]
    assert [2, 1, 0] == [entry.at for entry in rest]
    assert r"\x1b[31m<b>\udcff\x00" == page[0].subject
