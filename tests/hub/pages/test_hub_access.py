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


def test_cookie_that_was_kept_opens_nothing_after_the_log_out(pages: HubPages) -> None:
    """The session ends at the hub, also for whoever copied the cookie; other browsers stay logged in."""
    visitor, other, thief = pages.visitor(), pages.visitor(), pages.client()
    thief.cookie = visitor.cookie
    assert 200 == thief.get("/audit").status
    token = visitor.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
    assert 303 == visitor.post("/logout", {"csrf": token}).status

    assert (303, "/login") == ((reply := thief.get("/audit")).status, reply.headers["Location"])
    assert 401 == thief.get("/api/v1/boxes").status
    assert 200 == other.get("/audit").status


def test_nul_in_a_url_is_refused_with_words(pages: HubPages) -> None:
    """Wherever it stands; PostgreSQL takes no text with one, and file systems no name."""
    visitor = pages.visitor()
    for place in (
        *("/boxes/a%00b", "/sets/a%00b", "/trees/a%00", "/manual/%00", "/static/%00", "/findings?set=%00"),
        *("/boxes?name=%00", "/boxes?after=%00", "/sets?after=%00", "/findings?%00=1", "/boxes/cellar?findings=%00"),
    ):
        reply = visitor.get(place)
        assert (400, True) == (reply.status, "%00: no name has this character" in reply.text), place
    for place in ("/boxes/%00", "/boxes?name=%00", "/sets/%00", "/findings?box=%00", "/findings?tree=a%00"):
        reply = visitor.get(f"/api/v1{place}")
        assert (400, True) == (reply.status, reply.object["error"].startswith("%00")), place
    assert "bug" not in pages.log


def test_unknown_filters_are_refused_with_words(pages: HubPages) -> None:
    """A mistyped filter must not read as "nothing is open"."""
    visitor = pages.visitor()
    refusals = {
        "/findings?state=AAA": "state: must be one of open, all.",
        "/findings?kind=AAA": "kind: must be one of replica_damaged,",
        "/findings?set=AAA": "set: there is none with this name.",
        "/findings?box=AAA": "box: there is none with this name.",
        "/findings?tree=AAA": "tree: there is none with this name.",
        "/boxes?health=AAA": "health: must be one of ",
        "/boxes?sort=AAA": "sort: must be one of name,",
    }
    for place, words in refusals.items():
        page, program = visitor.get(place), visitor.get(f"/api/v1{place}")
        assert (400, True) == (page.status, words in page.text), place
        assert (400, True) == (program.status, words in program.object["error"]), place
    assert 400 == visitor.get("/boxes/cellar?findings=AAA").status
    assert 400 == visitor.get("/api/v1/boxes/cellar/findings?state=AAA").status
    for place in ("/findings?state=open&kind=", "/findings?state=", "/boxes/cellar?findings=all"):
        assert 200 == visitor.get(place).status, place


def test_guesses_have_to_wait(pages: HubPages) -> None:
    """After some wrong passwords the right one is refused as well, until the pause is over."""
    guesser = pages.client()
    statuses = [guesser.log_in(f"wrong password {number}").status for number in range(8)]

    assert 403 == statuses[0]
    assert 429 == statuses[-1] == guesser.log_in().status
