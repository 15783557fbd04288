"""The history of actions: who had what done, newest first, for ever."""

from __future__ import annotations

import pytest

from integrity.catalog.roots import remove_root
from integrity.catalog.runs import Action, find_actions, record_action
from integrity.errors import CatalogError
from integrity.model import ActionVerb, Actor, FindingId
from support.catalogs import NOW, CatalogBox

ACTOR = Actor("alice (uid 1000)", "192.0.2.7")


def record(box: CatalogBox, *actions: Action) -> None:
    """Record actions, one second apart."""
    with box.catalog.transaction() as c:
        for number, done in enumerate(actions):
            record_action(c, done, NOW + number)


def test_actions_are_listed_newest_first_page_by_page(box: CatalogBox) -> None:
    """A page begins where the former one ended, also if actions were recorded meanwhile."""
    record(box, *(Action(ACTOR, ActionVerb.ACK, f"number {number}") for number in range(1, 6)))
    with box.catalog.read() as c:
        first = find_actions(c, limit=2)
    record(box, Action(ACTOR, ActionVerb.ACK, "meanwhile"))
    with box.catalog.read() as c:
        second = find_actions(c, before=first[-1].id, limit=2)
        third = find_actions(c, before=second[-1].id, limit=2)

    assert ["number 5", "number 4"] == [one.action.outcome for one in first]
    assert [NOW + 4, NOW + 3] == [one.at for one in first]
    assert ["number 3", "number 2", "number 1"] == [one.action.outcome for one in (*second, *third)]


def test_action_is_read_as_it_was_recorded(box: CatalogBox) -> None:
    """Paths are any bytes; text that is not Unicode is escaped."""
    done = Action(
        ACTOR, ActionVerb.ACCEPT, "accepted", b"/srv/\xff", b"a\n\xfe", (FindingId(3), FindingId(9)), "it's mine\udcff"
    )
    record(box, done, Action(Actor("root", ""), ActionVerb.TEST_ALERT, "sent"))
    with box.catalog.read() as c:
        last, first = (one.action for one in find_actions(c))

    assert (b"/srv/\xff", b"a\n\xfe", (3, 9)) == (first.root, first.path, first.findings)
    assert ("it's mine\\udcff", ACTOR) == (first.reason, first.actor)
    assert (None, None, (), "") == (last.root, last.path, last.findings, last.reason)


def test_action_outlives_its_root(box: CatalogBox) -> None:
    """Who had a root forgotten is asked when it is gone."""
    record(box, Action(ACTOR, ActionVerb.FORGET, "forgotten", box.root.path))
    with box.catalog.transaction() as c:
        remove_root(c, box.root.id)
    with box.catalog.read() as c:
        assert [box.root.path] == [one.action.root for one in find_actions(c)]


def test_action_without_its_change_is_not_recorded(box: CatalogBox) -> None:
    """Both are in one transaction."""

    def fail_after_recording() -> None:
        with box.catalog.transaction() as c:
            record_action(c, Action(ACTOR, ActionVerb.ACK, "acknowledged"), NOW)
            raise CatalogError("the change failed")

    with pytest.raises(CatalogError, match="the change failed"):
        fail_after_recording()
    with box.catalog.read() as c:
        assert [] == find_actions(c)
