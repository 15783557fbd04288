"""Who reaches the pages of a hub, and acts there: what another site, a guesser or a planted cookie can't do."""

from __future__ import annotations

from support.hub_pages import HubPages
from support.webpage import PASSWORD

FORGED: tuple[dict[str, str], ...] = (
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1.evil.example"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
)


def test_other_site_acts_for_nobody(pages: HubPages) -> None:
    """Not even with the token of a session: neither on a finding, nor by a log-in, a log-out or a first password."""
    visitor = pages.visitor()
    token = visitor.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
    before = visitor.get("/api/v1/findings").object
    forms = {
        "/actions/ack": {"id": "1"},
        "/actions/mute": {"id": "1", "days": "7"},
        "/logout": {"everywhere": "1"},
        "/login": {"password": PASSWORD},
        "/welcome": {"password": "x" * 20, "again": "x" * 20},
    }
    for headers in FORGED:
        statuses = {path: visitor.post(path, form | {"csrf": token}, **headers).status for path, form in forms.items()}
        assert dict.fromkeys(forms, 403) == statuses, headers
    assert before == visitor.get("/api/v1/findings").object


def test_hub_answers_under_its_own_names_only(pages: HubPages) -> None:
    """A name that an attacker lets point here opens nothing (DNS rebinding)."""
    visitor = pages.visitor()
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[::1"):
        for place in ("/", "/login", "/healthz", "/metrics", "/api/v1/boxes", "/static/style.css"):
            assert visitor.get(place, Host=host).status in (400, 421), (host, place)


def test_planted_cookie_is_no_session_and_does_not_become_one(pages: HubPages) -> None:
    """A log-in makes a new session, whatever cookie the browser came with; another one's is forged in vain."""
    victim, attacker = pages.client(), pages.visitor()
    planted = attacker.cookie
    victim.cookie = planted
    assert 303 == victim.log_in().status

    assert planted != victim.cookie
    victim.cookie = planted[:-2] + ("AA" if planted[-2:] != "AA" else "BB")
    assert 303 == victim.get("/boxes").status


def test_guesses_have_to_wait(pages: HubPages) -> None:
    """After some wrong passwords the right one is refused as well, until the pause is over."""
    guesser = pages.client()
    statuses = [guesser.log_in(f"wrong password {number}").status for number in range(8)]

    assert 403 == statuses[0]
    assert 429 == statuses[-1] == guesser.log_in().status
