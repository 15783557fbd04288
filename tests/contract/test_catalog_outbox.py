"""The outbox and what was told: what is written stays until it was said, and nothing is said twice."""

from __future__ import annotations

import pytest

from integrity.catalog import findings, notified, outbox
from integrity.catalog.findings import NewFinding
from integrity.catalog.outbox import AlertKind, Message
from integrity.model import Certainty, Finding, FindingId, FindingKind, FindingState
from support.catalogs import DAY_S, NOW, CatalogBox, run_daily

HOUR_S = 3600


def make_message(number: int = 1, kind: AlertKind = AlertKind.INCIDENT, *, now: int = NOW) -> Message:
    return Message(kind, f"<{number}@nas>", "subject", "text", "<p>", "{}", (3, 4), now)


def queue(box: CatalogBox, message: Message, *channels: str) -> int:
    with box.catalog.transaction() as c:
        return outbox.queue(c, message, channels)


def due(box: CatalogBox, channel: str, now: int = NOW) -> list[str]:
    with box.catalog.read() as c:
        return [each.message.message_id for each in outbox.find_due(c, channel, now)]


def fail(box: CatalogBox, number: int, channel: str, *, at: int, wait_s: int = 60, is_permanent: bool = False) -> None:
    with box.catalog.transaction() as c:
        outbox.mark_failed(c, number, channel, error="down", is_permanent=is_permanent, next_try_at=at + wait_s, now=at)


def set_channels(box: CatalogBox, *channels: str, others: tuple[str, ...] = (), now: int = NOW) -> None:
    with box.catalog.transaction() as c:
        outbox.set_channels(c, channels, others, now)


def find(
    box: CatalogBox, path: bytes | None, kind: FindingKind = FindingKind.ROT, *, now: int = NOW, block: int = 3
) -> Finding:
    new = NewFinding(kind, box.root.id, None, path, "message", Certainty.PROVEN, blocks=(block,))
    with box.catalog.transaction() as c:
        return findings.open_finding(c, new, now=now, run_id=box.run_id)[0]


def news(box: CatalogBox, now: int = NOW) -> list[tuple[FindingId, bool]]:
    with box.catalog.read() as c:
        return [(one.finding.id, one.is_change) for one in notified.find_pending_incidents(c, now)]


def tell(box: CatalogBox, *ids: FindingId, now: int = NOW) -> None:
    with box.catalog.transaction() as c:
        notified.mark_notified(c, ids, now)


def test_message_comes_back_as_it_was_written(box: CatalogBox) -> None:
    """What is sent is what was queued, down to its numbers."""
    message = make_message()
    number = queue(box, message, "a")
    with box.catalog.read() as c:
        assert [outbox.DueDelivery(number, 0, message)] == outbox.find_due(c, "a", NOW)


def test_delivery_waits_for_its_channel_until_it_was_taken(box: CatalogBox) -> None:
    """Each channel has its own row: one that fails waits, the others are not concerned."""
    number = queue(box, make_message(), "a", "b")
    fail(box, number, "a", at=NOW)
    with box.catalog.transaction() as c:
        outbox.mark_sent(c, number, "b", NOW)

    assert [] == due(box, "a")
    assert ["<1@nas>"] == due(box, "a", NOW + 60)
    assert [] == due(box, "b", NOW + 60)
    with box.catalog.read() as c:
        assert NOW + 60 == outbox.next_try_at(c, ["a", "b"], NOW)
        assert outbox.next_try_at(c, ["b"], NOW) is None


def test_clock_that_was_put_back_does_not_silence_a_delivery(box: CatalogBox) -> None:
    """A next try further away than any back-off is due."""
    number = queue(box, make_message(), "a")
    fail(box, number, "a", at=NOW + 365 * DAY_S)

    assert ["<1@nas>"] == due(box, "a")


@pytest.mark.parametrize(("kind", "left"), [(AlertKind.REMINDER, [2]), (AlertKind.DIGEST, [1, 2])])
def test_newer_reminder_replaces_an_unsent_one(box: CatalogBox, kind: AlertKind, left: list[int]) -> None:
    """A server that was down for a week gets one reminder; what tells of something new is never dropped."""
    queue(box, make_message(1, kind), "a")
    queue(box, make_message(2, kind), "a")

    assert [f"<{number}@nas>" for number in left] == due(box, "a")


def test_message_of_a_vanished_channel_goes_to_those_of_now(box: CatalogBox) -> None:
    """Another address in the config inherits what the old one never got, but not what somebody has."""
    set_channels(box, "old", "b")
    queue(box, make_message(1), "old")
    second = queue(box, make_message(2), "old", "b")
    with box.catalog.transaction() as c:
        outbox.mark_sent(c, second, "b", NOW)
    set_channels(box, "new", "b")

    assert ["<1@nas>"] == due(box, "new")
    assert ["<1@nas>"] == due(box, "b")
    assert [] == due(box, "old")


def test_without_any_channel_messages_wait(box: CatalogBox) -> None:
    """They go to whoever can be told later."""
    queue(box, make_message(1), "old")
    set_channels(box)
    set_channels(box, "new")

    assert ["<1@nas>"] == due(box, "new")


def test_failing_channel_is_seen_with_its_reason(box: CatalogBox) -> None:
    """channel_states says since when it fails, why, and how much waits; one success clears it."""
    set_channels(box, "a")
    number = queue(box, make_message(), "a")
    fail(box, number, "a", at=NOW)
    fail(box, number, "a", at=NOW + 60, is_permanent=True)
    with box.catalog.read() as c:
        (state,) = outbox.channel_states(c)
    assert outbox.ChannelState("a", 1, None, NOW, NOW + 60, True, "down") == state

    with box.catalog.transaction() as c:
        outbox.mark_sent(c, number, "a", NOW + 120)
        (state,) = outbox.channel_states(c)
    assert outbox.ChannelState("a", 0, NOW + 120, None, None, False, None) == state


def test_failure_is_to_be_told_once_it_lasts_an_hour(box: CatalogBox) -> None:
    """Not after the first attempt however long ago, not twice; after a recovery again."""
    number = queue(box, make_message(), "a")

    def untold() -> list[str]:
        with box.catalog.read() as c:
            return [state.name for state in outbox.find_unreported_failures(c, HOUR_S)]

    fail(box, number, "a", at=NOW)
    assert [] == untold()
    fail(box, number, "a", at=NOW + HOUR_S)
    assert ["a"] == untold()
    with box.catalog.transaction() as c:
        outbox.mark_failure_reported(c, "a", NOW)
    fail(box, number, "a", at=NOW + 2 * HOUR_S)
    assert [] == untold()
    with box.catalog.transaction() as c:
        outbox.note_success(c, "a", NOW)
        outbox.note_failure(c, "a", "wrong password", is_permanent=True, now=NOW)
    assert ["a"] == untold()


def test_old_messages_are_pruned_but_those_that_wait(box: CatalogBox) -> None:
    """After 90 days; the last of each kind stays, for its time is asked for."""
    for number in (1, 2, 3):
        queue(box, make_message(number), "a")
    with box.catalog.transaction() as c:
        outbox.mark_sent(c, 1, "a", NOW)
        outbox.mark_sent(c, 3, "a", NOW)
        run_daily(c, NOW, NOW + 91 * DAY_S)
        outbox.prune(c, NOW + 91 * DAY_S)

        assert 2 == len(outbox.created_times(c, [AlertKind.INCIDENT], 10))
    assert ["<2@nas>"] == due(box, "a", NOW + 91 * DAY_S)


def test_finding_is_news_until_it_was_told_and_when_it_changes(box: CatalogBox) -> None:
    """Found again the same, it is no news; with another block, it is."""
    found = find(box, b"a")
    assert [(found.id, False)] == news(box)
    tell(box, found.id)
    find(box, b"a", now=NOW + DAY_S)
    assert [] == news(box)
    find(box, b"a", now=NOW + DAY_S, block=4)
    assert [(found.id, True)] == news(box)


def test_acknowledged_and_muted_findings_are_no_news(box: CatalogBox) -> None:
    """An acknowledged one is told again if it changes, a muted one when its time is over."""
    first, second = find(box, b"a"), find(box, b"b")
    tell(box, first.id)
    with box.catalog.transaction() as c:
        findings.silence(c, [first.id])
        findings.silence(c, [second.id], NOW + DAY_S)
    assert [] == news(box)
    assert [(second.id, False)] == news(box, NOW + DAY_S)
    find(box, b"a", block=9)
    assert [(first.id, True)] == news(box)


def test_notes_are_not_told(box: CatalogBox) -> None:
    """What changes no exit code sends no mail."""
    find(box, b"a", FindingKind.COPY_EXTRA)

    assert [] == news(box)


def test_failing_device_swallows_the_unreadable_files_of_its_run(box: CatalogBox) -> None:
    """They are told by it, and reminded of by it as long as it is open."""
    files = [find(box, b"%d" % number, FindingKind.UNREADABLE) for number in range(300)]
    device = find(box, None, FindingKind.DEVICE_FAILING)
    with box.catalog.transaction() as c:
        assert notified.has_coalescible(c, NOW)
        notified.coalesce(c, NOW)
        assert not notified.has_coalescible(c, NOW)
        (only,) = notified.find_pending_incidents(c, NOW)
        assert (device.id, 300) == (only.finding.id, only.coalesced)
        notified.mark_notified(c, [device.id], NOW)
        assert [device.id] == [one.id for one in notified.find_remindable(c, NOW)]
        findings.resolve_ids(c, [device.id], resolution="new disk", now=NOW)
        assert [one.id for one in files] == [one.id for one in notified.find_remindable(c, NOW)]


def test_unreadable_file_of_another_run_is_news(box: CatalogBox) -> None:
    """A failing device swallows what was found with it, nothing else."""
    find(box, None, FindingKind.DEVICE_FAILING)
    new = NewFinding(FindingKind.UNREADABLE, box.root.id, None, b"a", "message")
    with box.catalog.transaction() as c:
        findings.open_finding(c, new, now=NOW, run_id=None)

    assert 2 == len(news(box))


def test_summary_counts_what_was_told(box: CatalogBox) -> None:
    """Open, silenced and resolved ones; the finding of a forgotten root counts as resolved."""
    found = [find(box, b"%d" % number) for number in range(4)]
    tell(box, *(one.id for one in found), now=NOW + 1)
    box.damage("DELETE FROM finding WHERE id = ?", found[3].id)
    with box.catalog.transaction() as c:
        findings.silence(c, [found[1].id])
        findings.resolve_ids(c, [found[2].id], resolution="repaired", now=NOW)
        assert notified.NotifiedSummary(
            unresolved=2, resolved=2, remindable=1, waits_since=NOW + 1
        ) == notified.summarize(c, NOW)
        assert [FindingState.RESOLVED] == [one.state for one in notified.find_over(c)]
        notified.drop_over(c)
        assert notified.NotifiedSummary(
            unresolved=2, resolved=0, remindable=1, waits_since=NOW + 1
        ) == notified.summarize(c, NOW)


def test_first_telling_is_remembered_when_a_finding_is_told_again(box: CatalogBox) -> None:
    """Reminders count from when it was told first."""
    found = find(box, b"a")
    tell(box, found.id, now=NOW)
    tell(box, found.id, now=NOW + DAY_S)
    with box.catalog.read() as c:
        assert NOW == notified.summarize(c, NOW).waits_since


def test_verified_files_are_counted_since_a_time(box: CatalogBox) -> None:
    """Files that were read again since, and their bytes."""
    ids = [box.record(b"a"), box.record(b"b")]
    with box.catalog.read() as c:
        assert (0, 0) == notified.count_verified_since(c, NOW)
    box.damage("UPDATE file SET verified_at = ? WHERE id = ?", NOW, ids[0])
    with box.catalog.read() as c:
        assert (1, 5000) == notified.count_verified_since(c, NOW)
