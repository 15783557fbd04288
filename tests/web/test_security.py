"""An attacker's list: each way in that is known for such pages, tried on the real one."""

from __future__ import annotations

import http.client
import math
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from integrity.web.passwords import PasswordStore
from integrity.web.security import SESSION_LIFE_S, Sessions
from integrity.web.server import BoundedProtocol
from support.cli import Box
from support.webpage import PASSWORD, WebPage

OPEN = ["/login", "/healthz", "/static/style.css", "/static/live.js", "/static/copy.js",
        "/static/icon.svg"]  # fmt: skip
CLOSED = ["/", "/findings", "/findings/1", "/browse", "/browse/1", "/runs", "/copies", "/alerts", "/settings",
          "/manual", "/manual/rot", "/live", "/nothing"]  # fmt: skip


@contextmanager
def serve(box: Box, *, web: str = "", has_password: bool = True) -> Iterator[WebPage]:
    """Serve an empty catalog."""
    (box.home / "watched").mkdir(parents=True)
    box.run("scan", box.home / "watched", expect=0)
    with WebPage(box, web=web, has_password=has_password) as served:
        yield served


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPage]:
    """Serve it for all tests that guess no password."""
    with serve(Box(tmp_path_factory.mktemp("page") / "home")) as served:
        yield served


@pytest.fixture
def guessed(integrity: Box) -> Iterator[WebPage]:
    """Serve it for one test, after whose guesses nobody from its address can log in for a while."""
    with serve(integrity) as served:
        yield served


def test_nothing_is_shown_without_a_log_in(page: WebPage) -> None:
    """Pages lead to the log-in; programs get 401."""
    stranger = page.client()

    for place in CLOSED:
        reply = stranger.get(place)
        assert (303, "/login") == (reply.status, reply.headers["Location"]), place
    for place in ("/metrics", "/api/v1/status", "/api/v1/findings"):
        assert 401 == stranger.get(place).status
    assert all(stranger.get(place).status in (200, 503) for place in OPEN)


def test_log_in_and_out(page: WebPage) -> None:
    """The cookie is out of reach of scripts and of other sites; after the log-out it opens nothing, if it was kept."""
    visitor = page.client()
    reply = visitor.log_in()
    cookie, kept = reply.headers["Set-Cookie"], visitor.cookie

    assert (303, "/") == (reply.status, reply.headers["Location"])
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert 200 == visitor.get("/").status
    assert 303 == visitor.post("/logout", {"csrf": visitor.find_token()}).status
    assert 303 == visitor.get("/").status
    visitor.cookie = kept
    assert 303 == visitor.get("/").status


def test_unknown_words_and_nul_are_refused(page: WebPage) -> None:
    """With words, on the page and for programs."""
    visitor = page.visitor()

    for place in ("/findings?state=AAA", "/findings?kind=AAA", "/runs?job=AAA"):
        assert (400, 400) == (visitor.get(place).status, visitor.get(f"/api/v1{place}").status), place
        assert "must be one of" in visitor.get(place).text
    for place in ("/browse/1/%00", "/static/%00", "/findings?copy=%00", "/api/v1/files/%00", "/runs?root=1%00"):
        reply = visitor.get(place)
        assert (400, True) == (reply.status, "no name has this character" in reply.text), place
    assert "bug" not in page.log


def test_logged_out_session_stays_ended(tmp_path: Path) -> None:
    """Also after a restart of the page; what ended so long ago that its cookie is worthless is forgotten."""
    folder, now = os.fsencode(tmp_path / "state"), 1_800_000_000
    store = PasswordStore(folder)
    store.set_password(PASSWORD)
    cookie, session = Sessions(store).open()
    other, _ = Sessions(store).open()
    Sessions(store, lambda: now).end(session)

    assert not Sessions(store).holds(session)
    again = PasswordStore(folder)
    assert (None, True) == (Sessions(again).find(cookie), Sessions(again).find(other) is not None)
    assert again.is_right(PASSWORD)
    Sessions(again, lambda: now + SESSION_LIFE_S + 1).end(Sessions(again).open()[1])
    assert not again.has_ended(session.name)


def test_log_out_everywhere_ends_every_session(page: WebPage) -> None:
    """Also that of another browser and a cookie that was kept; the password stays."""
    visitor, other = page.visitor(), page.visitor()
    kept = visitor.cookie

    assert 303 == visitor.post("/logout", {"csrf": visitor.find_token(), "everywhere": "1"}).status
    visitor.cookie = kept
    assert (303, 303) == (visitor.get("/settings").status, other.get("/settings").status)
    assert 303 == visitor.log_in().status
    assert 200 == visitor.get("/settings").status


def test_guessing_is_slowed_down(guessed: WebPage) -> None:
    """After some wrong passwords an address has to wait, even with the right one."""
    stranger = guessed.client()
    answers = [stranger.log_in(f"guess {number}").status for number in range(8)]

    assert 403 == answers[0]
    assert 429 == answers[-1]
    assert "" == stranger.cookie
    refused = stranger.log_in()
    assert 429 == refused.status
    assert int(refused.headers["Retry-After"]) > 0


def test_guesses_take_no_thread_that_makes_pages(tmp_path: Path) -> None:
    """Hashing a password is slow on purpose: many guesses wait for each other, and pages for none of them."""
    store = PasswordStore(bytes(tmp_path / "state"))
    store.set_password(PASSWORD)

    async def guess() -> list[int]:
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(store.check, "a guess")
            await anyio.lowlevel.checkpoint()
            return [int(anyio.to_thread.current_default_thread_limiter().borrowed_tokens)]

    assert [0] == anyio.run(guess)


def test_numbers_of_any_length_are_no_bug(page: WebPage) -> None:
    """There is no such page, and the log does not grow by what was asked for."""
    visitor = page.visitor()

    for place in ("/findings/", "/runs/", "/browse/", "/api/v1/findings/"):
        for length in (18, 19, 25, 5000):
            assert 404 == visitor.get(place + "9" * length).status, (place, length)
    assert "bug" not in page.log


def test_guesses_at_the_same_moment_count_as_well(guessed: WebPage) -> None:
    """Sixty at once are no more than five, and one more after each pause of 1, 2, 4 s that a slow machine lets pass."""
    answers: list[int] = []
    guessing = [
        threading.Thread(target=lambda: answers.append(guessed.client().log_in("one of many guesses").status))
        for _ in range(60)
    ]
    began = time.monotonic()
    for one in guessing:
        one.start()
    for one in guessing:
        one.join()
    passed = int(math.log2(time.monotonic() - began + 1))

    assert 5 <= answers.count(403) <= 5 + passed
    assert 60 == answers.count(403) + answers.count(429)


def test_forms_need_the_token_of_their_session(page: WebPage) -> None:
    """A form that another site has the browser send changes nothing."""
    visitor, other = page.visitor(), page.visitor()

    for token in ("", "x" * 64, "\u00e9", other.find_token()):
        assert 403 == visitor.post("/logout", {"csrf": token}).status
    assert 403 == visitor.post("/logout", {"csrf": visitor.find_token()}, Origin="http://evil.example").status
    assert 403 == visitor.post("/logout", {"csrf": visitor.find_token()}, Sec_Fetch_Site="cross-site").status
    assert 200 == visitor.get("/").status


def test_other_names_are_refused(page: WebPage) -> None:
    """A name that an attacker lets point here (DNS rebinding) gets nothing, not even the log-in."""
    visitor = page.visitor()

    for host in ("evil.example", "evil.example:8431", "127.0.0.1.evil.example", "", "[::1", "a" * 300):
        for place in ("/", "/login", "/healthz", "/api/v1/status", "/static/style.css"):
            assert visitor.get(place, Host=host).status in (400, 421), (host, place)
    assert 200 == visitor.get("/", Host=f"LOCALHOST:{page.port}").status


def test_host_name_is_no_part_of_the_path(page: WebPage) -> None:
    """A Host header with a path of an open page in it opens no other page."""
    for host in ("127.0.0.1:80/login?", "127.0.0.1:80/static/", "localhost:/healthz#"):
        assert page.client().get("/settings", Host=host).status in (303, 400, 421)


def test_session_can_not_be_chosen_forged_or_kept(page: WebPage) -> None:
    """A log-in makes a new session; another key signs nothing; a new password ends all."""
    visitor = page.client()
    visitor.cookie = "integrity_session=chosen"
    visitor.log_in()
    cookie = visitor.cookie
    assert "chosen" not in cookie
    for forged in (
        cookie[:-9] + ("A" if cookie[-9] != "A" else "B") + cookie[-8:],
        "integrity_session=" + "x" * 60,
        cookie + ".",
    ):
        thief = page.client()
        thief.cookie = forged
        assert 303 == thief.get("/").status
    old = page.client()
    old.cookie = cookie
    assert 200 == old.get("/").status


def test_new_password_ends_all_sessions(integrity: Box) -> None:
    """Also those of before a restart, which otherwise last."""
    with WebPage(integrity) as page:
        visitor = page.visitor()
        port = page.port
    with WebPage(integrity, has_password=False, port=port) as page:
        assert visitor.get("/settings").status == 200
        page.set_password("another password")
        assert 303 == visitor.get("/settings").status
        assert 403 == visitor.log_in(PASSWORD).status
        assert 303 == visitor.log_in("another password").status


def test_new_password_ends_open_streams_and_the_link(integrity: Box) -> None:
    """Who watches what runs sees no more of it, and a link that nobody used sets no password any longer."""
    with serve(integrity, has_password=False) as page:
        link = page.link
        page.set_password(PASSWORD)
        assert 403 == page.client().get(link).status
        visitor = page.visitor()
        with socket.create_connection(("127.0.0.1", page.port), timeout=30) as stream:
            stream.sendall(f"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {visitor.cookie}\r\n\r\n".encode())
            assert b"200" in stream.recv(100)
            page.set_password("another password")
            said = b""
            while not said.endswith(b"0\r\n\r\n"):
                said += (more := stream.recv(1 << 16))
                assert more
        (page.state / "integrity-web" / "password.json").write_text("{")
        assert 303 == visitor.get("/settings").status
        assert "damaged" in page.log


def test_first_password_is_set_by_a_link_that_holds_once(integrity: Box) -> None:
    """Who has not read the log can set none."""
    with WebPage(integrity, has_password=False) as page:
        stranger = page.client()
        assert "No password is set yet" in stranger.get("/login").text
        assert 403 == stranger.log_in("").status
        assert 403 == stranger.get("/welcome").status
        assert 403 == stranger.get("/welcome?token=guess").status
        assert 403 == stranger.get("/welcome?token=%C3%A9").status
        form = {"token": "guess", "password": PASSWORD, "again": PASSWORD}
        assert 403 == stranger.post("/welcome", form).status
        token = page.link.partition("=")[2]
        assert 200 == stranger.get(page.link).status
        assert 400 == stranger.post("/welcome", {"token": token, "password": "short", "again": "short"}).status
        assert 400 == stranger.post("/welcome", {"token": token, "password": PASSWORD, "again": "x"}).status
        assert 303 == stranger.post("/welcome", form | {"token": token}).status
        assert 200 == stranger.get("/settings").status
        assert 403 == stranger.get(page.link).status
        assert 403 == page.client().post("/welcome", form | {"token": token}).status
    stored = page.state / "integrity-web" / "password.json"
    assert 0o600 == stat.S_IMODE(stored.stat().st_mode)
    assert PASSWORD not in stored.read_text()


def test_every_answer_forbids_what_pages_do_not_need(page: WebPage) -> None:
    """No script but ours, no frame, no sniffing, no copy in a cache."""
    visitor = page.visitor()

    for place in ("/", "/nothing", "/login", "/api/v1/status", "/static/live.js", "/findings?before=x"):
        headers = visitor.get(place).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert ("nosniff", "DENY") == (headers["X-Content-Type-Options"], headers["X-Frame-Options"])
        assert "no-store" in headers["Cache-Control"]
        assert "Server" not in headers
    text = visitor.get("/").text
    assert "style=" not in text
    assert "onclick" not in text


def test_large_requests_end_early(page: WebPage) -> None:
    """A body of a gigabyte, said to be one or not, and cookies and lines without end."""
    visitor = page.visitor()

    assert 413 == visitor.ask("POST", "/login", headers={"Content-Length": str(1 << 30)}).status
    assert 400 == visitor.ask("POST", "/login", headers={"Content-Length": "-5"}).status
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
    connection.putrequest("POST", "/login")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.putheader("Content-Type", "application/x-www-form-urlencoded")
    connection.endheaders()
    try:
        for _ in range(1 << 14):
            connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    except OSError:
        pass  # it hung up
    else:
        pytest.fail("a gigabyte was taken")
    finally:
        connection.close()
    greedy = page.client()
    greedy.cookie = "integrity_session=" + "x" * (64 << 10)
    assert greedy.get("/").status in (303, 400, 431)
    assert 200 == visitor.get("/").status
    assert "Traceback" not in page.log


@pytest.mark.parametrize(
    "begin",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
        b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\npassword=",
    ],
    ids=["head", "body"],
)
def test_many_slow_connections_leave_room(page: WebPage, begin: bytes) -> None:
    """More clients than may be connected, none of which finishes its request, do not keep anybody else out."""
    visitor = page.visitor()
    slow = []
    try:
        for _ in range(BoundedProtocol.most_connections + 100):
            one = socket.create_connection(("127.0.0.1", page.port), timeout=10)
            one.sendall(begin)
            slow.append(one)
        began = time.monotonic()
        assert 200 == visitor.get("/settings").status
        assert time.monotonic() - began < 5
        assert len(os.listdir(f"/proc/{page.pid}/fd")) < 500
        assert "bug" not in page.log
    finally:
        for one in slow:
            one.close()


def test_token_opens_what_programs_read_and_nothing_else(integrity: Box, tmp_path: Path) -> None:
    """``/metrics`` and ``/api`` take it as a bearer token; pages and forms do not."""
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123\n")
    with serve(integrity, web=f'token_file = "{file}"') as page:
        program = page.client()
        right, wrong = "Bearer 0123456789abcdef0123", "Bearer 0123456789abcdef0124"
        for place in ("/metrics", "/api/v1/status"):
            assert 200 == program.get(place, Authorization=right).status
            assert 401 == program.get(place, Authorization=wrong).status
            assert 401 == program.get(place, Authorization="Bearer ").status
        assert 303 == program.get("/settings", Authorization=right).status
        assert 401 == program.post("/api/v1/status", {}, Authorization=right).status


@pytest.mark.parametrize(
    ("web", "said"),
    [
        ('listen = "0.0.0.0:8431"', "in plain text"),
        ('listen = "[::]:8431"', "in plain text"),
        ('tls_certificate = "/etc/cert.pem"', "belong together"),
        ('tls_certificate = "/nothing/cert.pem"\ntls_key = "/nothing/key.pem"', "can't be used"),
        ('self_signed = true\ntls_certificate = "/a"\ntls_key = "/b"', "exclude each other"),
        ('token_file = "/nothing"', "can't be read"),
        ('listen = "localhost:80"', "must be an address and a port"),
        ('trusted_proxy = "nginx"', "must be an IP address"),
    ],
)
def test_unsafe_or_useless_settings_are_refused(integrity: Box, web: str, said: str) -> None:
    """The page does not start, and says what to set."""
    integrity.configure(f"[web]\n{web}\n")
    done = integrity.run("web", expect=2, env={"XDG_STATE_HOME": str(integrity.home / "state")})

    assert said in done.stderr


def test_port_that_is_taken_is_named(page: WebPage) -> None:
    """With what to do."""
    done = Box(page.config.parent).run("web", expect=2, env={"XDG_STATE_HOME": str(page.state)})

    assert f"can't listen on 127.0.0.1 port {page.port}" in done.stderr


def test_short_password_is_refused_on_the_command_line(integrity: Box) -> None:
    """With how long it has to be; the former one, if there is one, stays."""
    state = {"XDG_STATE_HOME": str(integrity.home / "state")}
    done = integrity.run("web", "--set-password", expect=2, env=state)  # nothing stands on standard input

    assert "at least 10 characters" in done.stderr
    assert not (integrity.home / "state" / "integrity-web" / "password.json").exists()


def test_damaged_password_file_is_named(integrity: Box) -> None:
    """The page does not start without a password that somebody had set."""
    folder = integrity.home / "state" / "integrity-web"
    folder.mkdir(parents=True)
    (folder / "password.json").write_text("{")
    done = integrity.run("web", expect=2, env={"XDG_STATE_HOME": str(integrity.home / "state")})

    assert "password.json: damaged; remove the file" in done.stderr
