"""What an ssh:// URL says, and how the answers of a shell on the other side are read."""

from __future__ import annotations

import pytest

from integrity.copies.protocol import CopyEntry, Trouble
from integrity.copies.ssh.connection import SshAddress, parse_address
from integrity.copies.ssh.shell import (
    BEGIN,
    END,
    TOOLS,
    BadAnswer,
    Records,
    make_digest,
    make_list,
    make_probe,
    parse_complaint,
    parse_digest,
    parse_entry,
    split_complaints,
)
from integrity.errors import ConfigError

MD5SUM = next(tool for tool in TOOLS if tool.words == "md5sum")
MD5SUM_Z = next(tool for tool in TOOLS if tool.words == "md5sum -z")


@pytest.mark.parametrize(
    ("url", "address", "shown"),
    [
        ("ssh://nas/srv", SshAddress("nas", None, None, b"/srv"), "ssh://nas/srv"),
        ("ssh://me@nas:2222/srv/b/", SshAddress("nas", "me", 2222, b"/srv/b"), "ssh://me@nas:2222/srv/b"),
        ("ssh://[fe80::1]:22/", SshAddress("fe80::1", None, 22, b"/"), "ssh://[fe80::1]:22/"),
        ("ssh://nas/~/photos", SshAddress("nas", None, None, b"photos"), "ssh://nas/~/photos"),
        ("ssh://nas/~", SshAddress("nas", None, None, b"."), "ssh://nas/~/."),
        ("ssh://nas/a%20b%ff%0a?".rstrip("?"), SshAddress("nas", None, None, b"/a b\xff\n"), "ssh://nas/a b\\xff\\n"),
        ("ssh://nas/a#1", SshAddress("nas", None, None, b"/a#1"), "ssh://nas/a#1"),
    ],
)
def test_url_is_taken_apart(url: str, address: SshAddress, shown: str) -> None:
    """User and port may be missing; bytes are percent-encoded; a tilde is the home folder."""
    assert address == parse_address(url)
    assert shown == parse_address(url).shown


@pytest.mark.parametrize(
    "url",
    ["ssh://", "ssh:///srv", "ssh://nas", "ssh://nas:port/srv", "ssh://nas:99999/srv", "ssh://nas/a%00b", "ssh://[x/"],
)
def test_url_that_is_none_says_how_to_write_it(url: str) -> None:
    """What is missing or wrong is said, with the form."""
    with pytest.raises(ConfigError, match="ssh://USER@HOST/FOLDER"):
        parse_address(url)


def test_password_in_a_url_is_refused_and_not_repeated() -> None:
    """Passwords don't belong in a URL, nor in a message."""
    with pytest.raises(ConfigError) as caught:
        parse_address("ssh://me:hunter2@nas/srv")

    assert "password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("folder", [b"/srv", b"'", b"/a'b\n\"$(x)`y`\\!%\xff", b"-n"])
def test_commands_hold_nothing_that_a_login_shell_would_read(folder: bytes) -> None:
    """Whatever a folder is called, a command is words in single quotes, of ASCII, on one line."""
    for command in (
        make_probe(folder),
        make_list(folder, folder),
        make_digest(folder, MD5SUM, is_each=True),
        make_digest(folder, MD5SUM_Z, is_each=False),
    ):
        words = command.removeprefix("sh -c ")
        assert words.isascii()
        assert words.isprintable()
        assert "\\\\" not in words.replace("\\\\0", "")  # fish takes two backslashes in quotes for one
        assert all(not word or word == " " for word in words.split("'")[::2])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_answer_may_come_in_any_pieces(size: int) -> None:
    """Records are whole however the line cuts them, and noise before them is skipped."""
    answer = b"motd\0 of the day\n" + BEGIN + b"\0one\0\0two\nlines\0named " + BEGIN + b"\0" + END + b" 1\0"
    records = Records()
    found = []
    for start in range(0, len(answer), size):
        assert records.status is None
        found += records.feed(answer[start : start + size])

    assert [b"one", b"", b"two\nlines", b"named " + BEGIN] == found
    assert 1 == records.status


def test_noise_without_end_is_no_answer() -> None:
    """Neither a greeting nor a record may fill the memory."""
    with pytest.raises(BadAnswer):
        Records().feed(b"x" * 100_000)
    records = Records()
    records.feed(BEGIN + b"\0")
    with pytest.raises(BadAnswer):
        records.feed(b"x" * 2_000_000)
    with pytest.raises(BadAnswer):
        Records().feed(BEGIN + b"\0" + END + b" x\0")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (b"5 1700000000.1234567890 ./a b\nc", CopyEntry(b"a b\nc", 5, 1_700_000_000_123_456_789)),
        (b"0 -2.2500000000 ./x", CopyEntry(b"x", 0, -1_750_000_000)),  # GNU find's way of a second and 3/4 before 1970
        (b"7 0.5 ./\xff", CopyEntry(b"\xff", 7, 500_000_000)),
    ],
)
def test_entry_is_read_as_find_prints_it(record: bytes, expected: CopyEntry) -> None:
    """Size, time to the nanosecond, any name."""
    assert expected == parse_entry(record, b"")


@pytest.mark.parametrize("record", [b"x 1.0 ./a", b"-1 1.0 ./a", b"5 ./a", b"5 1 ./a", b"9" * 5000 + b" 1.0 ./a"])
def test_what_is_no_entry_is_a_bad_answer(record: bytes) -> None:
    """What find does not print is not guessed at."""
    with pytest.raises(BadAnswer):
        parse_entry(record, b"")


@pytest.mark.parametrize("path", [b"../a", b"/a", b"./../a", b"./a/../b", b"./", b"./a//b", b"./other/a"])
def test_entry_that_is_not_below_is_a_trouble(path: bytes) -> None:
    """What leads outside of what was asked for is refused with its name."""
    assert isinstance(parse_entry(b"1 1.0 " + path, b"a"), Trouble)


@pytest.mark.parametrize(
    ("line", "prefix", "path"),
    [
        (b"find: './a/b': Permission denied", b"", b"a/b"),
        (b"find: './a\\n\\303\\244\\\\\\'': Input/output error", b"", b"a\n\xc3\xa4\\'"),
        (b"find: '.': Permission denied", b"", b""),
        (b"find: './a': No such file or directory", b"", b"a"),  # gone while it was listed: not known
        (b"sh: 1: find: not found", b"a", b"a"),
        (b"\x1b[2J anything", b"", b""),
    ],
)
def test_complaint_is_a_trouble_of_its_path(line: bytes, prefix: bytes, path: bytes) -> None:
    """What find says of a path is a trouble there; what can't be read is one of all."""
    found = parse_complaint(line, prefix)

    assert found is not None
    assert path == found.path


def test_prefix_that_is_not_there_is_no_trouble() -> None:
    """What was asked for may not exist; below it nothing can."""
    assert parse_complaint(b"find: './a': No such file or directory", b"a") is None
    assert parse_complaint(b"find: './a/b': Not a directory", b"a/b") is None
    assert [b"y"] == split_complaints(b"login says x\n" + BEGIN + b"\ny\n")
    assert [b"x", b"y"] == split_complaints(b"x\ny\n")


def test_line_of_a_tool_is_a_digest_and_a_path() -> None:
    """Both forms of md5sum's lines; whatever else it prints is none."""
    digest = bytes.fromhex(MD5SUM.of_abc)
    assert (digest, b"a  b") == parse_digest(MD5SUM.of_abc.encode() + b"  ./a  b", MD5SUM)
    assert (digest, b"a") == parse_digest(MD5SUM.of_abc.encode() + b" *./a", MD5SUM)
    for line in (b"", b"md5sum: a: b", b"0" * 31 + b"  ./a", b"0" * 33 + b" ./a", b"\\" + b"0" * 32 + b"  ./a"):
        assert parse_digest(line, MD5SUM) is None
