"""The configuration: what is read, what is refused and in which words, what is written back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integrity.config import (
    Config,
    default_catalog_path,
    default_config_path,
    default_runtime_folder,
    load_config,
    parse_config,
)
from integrity.config.line_index import LineIndex
from integrity.config.sample import sample, show_config
from integrity.errors import ConfigError
from integrity.model import Policy

ROOT = "[[root]]\npath = '{}'\n"
COPY = "[[copy]]\nname = 'n'\nof = '{}'\nurl = '{}'\n"
SETTLE = '2: defaults.settle: must be a duration with a unit such as "90s", "5h" or "10d", not 5'


def parse(text: str) -> Config:
    """Parse a config that is right."""
    return parse_config(text.encode(), "integrity.toml")


def complain(text: str | bytes) -> list[str]:
    """Return the lines of complaint about a config that is wrong."""
    content = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ConfigError) as caught:
        parse_config(content, "integrity.toml")
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        (
            '[defaults]\nblock_size = "3MiB"\nsettle = 5\n\n[mail]\nport = true\n',
            [
                '2: defaults.block_size: must be a power of two from 64KiB to 64MiB, not "3MiB"',
                SETTLE.replace("2", "3", 1),
                "6: mail.port: must be a whole number from 1 to 65,535, not true",
            ],
        ),
        ("[defaults]\nblok_size = 1", ['2: defaults.blok_size: unknown key; did you mean "block_size"?']),
        ("[defaultz]\n", ['1: defaultz: unknown key; did you mean "defaults"?']),
        ("qqq = 1", ["1: qqq: unknown key"]),
        ("heartbeat_url = ''", ["1: heartbeat_url: unknown key here; it belongs in [alerts]"]),
        (b'catalog = "/a"\n# \xff\n', ["2: not UTF-8: save the file as UTF-8 text"]),
        (
            "[defaults]\nsettle = 5\n" + ROOT.format("/a") + ROOT.format("/b"),
            [SETTLE],
        ),
        (
            ROOT.format("/srv/a") + ROOT.format("/srv/a/") + ROOT.format("/srv/a/b"),
            [
                "4: root.path: /srv/a is a [[root]] already",
                "6: root.path: /srv/a/b lies inside the [[root]] /srv/a: leave one out",
            ],
        ),
        (
            ROOT.format("/a") + ROOT.format("/b") + 'parity = "5%"\nparity_folder = "/b"\n',
            [
                "6: root.parity_folder: is the [[root]] /b itself: choose a folder of its own",
            ],
        ),
        (
            ROOT.format("/a") + ROOT.format("/b") + 'parity_folder = "/a/parity"\n',
            [
                "5: root.parity_folder: lies in the [[root]] /a, which would record the parity as its files: choose"
                " another folder, or make it the parity_folder of that root, too",
            ],
        ),
        (COPY.format("/a", "/b") * 2, ['6: copy.name: "n" names another [[copy]] already']),
    ],
)
def test_what_is_wrong_is_told_with_file_line_and_key(text: str | bytes, complaints: list[str]) -> None:
    """All of it at once, in the order of the file; with what was meant, where a slip of the pen is likely."""
    assert [f"integrity.toml:{one}" for one in complaints] == complain(text)


def test_syntax_error_has_line_and_column() -> None:
    """What tomllib knows of the place is kept, in the form of all other errors."""
    (line,) = complain("[defaults]\npolicy = archive\n")

    assert re.fullmatch(r"integrity\.toml:2:\d+: .+", line)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('catalog = "relative.db"', "catalog"),
        ('catalog = ""', "catalog"),
        ("catalog = 1", "catalog"),
        ('[defaults]\nblock_size = "32KiB"', "defaults.block_size"),
        ('[defaults]\nblock_size = "128MiB"', "defaults.block_size"),
        ('[defaults]\ndigests = ["md5"]', "defaults.digests"),
        ('[defaults]\ndigests = ["md5", "xxh3_128", "sha1"]', "defaults.digests"),
        ('[defaults]\npolicy = "frozen"', "defaults.policy"),
        ('[defaults]\npolicy = ["archive"]', "defaults.policy"),
        ('[defaults]\nexclude = "*.tmp"', "defaults.exclude"),
        ('[defaults]\nexclude = [""]', "defaults.exclude"),
        ("[defaults]\ncross_mounts = 1", "defaults.cross_mounts"),
        ('[defaults]\npresence = "never"', "defaults.presence"),
        ('[defaults]\nverify_every = "0d"', "defaults.verify_every"),
        ("[defaults]\nmass_change = { files = -1 }", "defaults.mass_change.files"),
        ("[defaults]\nmass_change = { percent = 101 }", "defaults.mass_change.percent"),
        ("[defaults]\nmass_change = 5", "defaults.mass_change"),
        ("[catalog_backup]\nkeep = 0", "catalog_backup.keep"),
        ("[[root]]\npolicy = 'archive'", "root.path"),
        ("[[root]]\npath = 'photos'", "root.path"),
        ("root = 5", "root"),
        ("[root]\npath = '/srv'", "root"),
        ("defaults = 5", "defaults"),
        ("[[copy]]\nname = 'a'\nof = '/a'\nurl = 'ftp://x'", "copy.url"),
        ("[[copy]]\nname = '-x'\nof = '/a'\nurl = '/b'", "copy.name"),
        ('[schedule]\nscan = "sometimes"', "schedule.scan"),
        ('[schedule]\nscan = "61 * * * *"', "schedule.scan"),
        ('[schedule]\ncompare = "son 03:00"', "schedule.compare"),
        ('[schedule]\nscrub = "01:00-25:00"', "schedule.scrub"),
        ('[pace]\nrate = "fast"', "pace.rate"),
        ("[pace]\npressure = 101", "pace.pressure"),
        ('[mail]\nto = "me@example.org"', "mail.to"),
        ('[mail]\nfrom = "a\\nBcc: b"', "mail.from"),
        ('[mail]\ntls = "ssl"', "mail.tls"),
        ('[alerts]\nheartbeat_url = "ftp://x"', "alerts.heartbeat_url"),
        ('[alerts]\ngroup = "2 minutes"', "alerts.group"),
    ],
)
def test_wrong_value_is_refused_with_its_key(text: str, key: str) -> None:
    """Each wrong value is one complaint, which names its key and says what it should be."""
    (line,) = complain(text)

    assert re.match(rf"integrity\.toml:\d+: {re.escape(key)}: (must be |is missing)", line), line


@pytest.mark.parametrize(
    "text",
    [
        '[schedule]\nscan = "hourly"\nscrub = "sat,sun 00:00-08:00, 22:00-24:00"\ncompare = "30 2 * * sun"',
        '[schedule]\nscrub = "mon-fri 01:00-06:00,22:00-23:00"\nscan = "*/15 1-5 1,15 jan-mar mon,wed"',
        '[schedule]\nscrub = "0 1 * * sun"\nscan = "sun 03:00"',
        '[pace]\nrate = "50M"\nfloor = 0',
        "[[root]]\npath = '/'\n",
    ],
)
def test_right_values_are_taken(text: str) -> None:
    """What the documentation allows is allowed."""
    parse(text)


def test_empty_config_and_the_sample_are_all_defaults() -> None:
    """Defaults stand in the definition only."""
    assert Config() == parse("") == parse(sample())


def test_root_inherits_the_defaults_and_overrides_single_keys() -> None:
    """A [[root]] has what [defaults] says, but for what it says itself, down to the limits of a mass change."""
    config = parse(
        '[defaults]\nverify_every = "10d"\nmass_change = { percent = 7 }\n'
        '[[root]]\npath = "/srv/photos"\npolicy = "archive"\nmass_change = { files = 3 }\n'
    )
    photos = config.settings_for(b"/srv/photos")

    assert Policy.ARCHIVE is photos.policy
    assert 10 * 86400 == photos.verify_every_s
    assert (3, 7) == (photos.mass_change_files, photos.mass_change_percent)
    assert config.defaults == config.settings_for(b"/srv/music")


def test_root_that_is_a_symlink_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    """The real path is what is stored, so it is what settings are found by."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    config = parse(f'[[root]]\npath = "{tmp_path}/link"\npolicy = "archive"\n')

    assert Policy.ARCHIVE is config.settings_for(os.fsencode(tmp_path / "disk")).policy


def test_copy_is_one_of_a_root_or_of_a_folder_in_one() -> None:
    """What contains a root is none: a root made by a command is not known here, so any other may be one."""
    for of in ("/srv/a", "/srv/a/b", "/srv/ab", "/made/by/a/command"):
        assert "n" == parse(ROOT.format("/srv/a") + COPY.format(of, "/b")).copies[0].name
    for of in ("/srv", "/"):
        (complaint,) = complain(ROOT.format("/srv/a") + COPY.format(of, "/b"))
        assert complaint.startswith(f"integrity.toml:5: copy.of: {of} contains the [[root]] /srv/a")


@pytest.mark.parametrize(
    "url", ["ssh://me:pass@host/p", "s3://key:pass@bucket/p", "s3://pass@bucket", "sftp://me:pass@host/p"]
)
def test_password_in_the_url_of_a_copy_is_refused_without_being_told(url: str) -> None:
    """It would be readable for all who can read the configuration; the log must not be another such place."""
    (complaint,) = complain(COPY.format("/a", url))

    assert complaint.startswith("integrity.toml:4: copy.url: must have no")
    assert "pass@" not in complaint
    assert "key:" not in complaint


def test_examples_in_the_sample_are_right_when_uncommented() -> None:
    """What a reader gets by removing the hash signs can be used."""
    text = re.sub(r"^# (?=\[\[|[a-z_]+ = )", "", sample(), flags=re.MULTILINE)
    config = parse(text)

    assert [b"/srv/photos"] == [root.path for root in config.roots]
    assert ["nightly"] == [copy.name for copy in config.copies]


def test_shown_config_comes_back() -> None:
    """What ``config show`` prints is a config that means the same."""
    config = parse(
        'catalog = "/x/ü\\"\\u007f.db"\n[defaults]\nexclude = ["*.tmp", "!a\\\\b"]\nblock_size = "64KiB"\n'
        "[[root]]\npath = '/srv/a'\nverify_every = '36h'\n[[copy]]\nname = 'n'\nof = '/srv/a'\nurl = 'ssh://h/p'\n"
        "[pace]\nrate = '50M'\n"
    )

    assert config == parse(show_config(config))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("rclone::sftp,host=h,pass=secret:photos", "rclone::sftp,...:photos"),
        ("rclone:nas,pass='a:secret':photos/b,c", "rclone:nas,...:photos/b,c"),
        ("rclone:nas:photos", "rclone:nas:photos"),
        ("ssh://me@h/p", "ssh://me@h/p"),
        ("/mnt/a,b:c", "/mnt/a,b:c"),
    ],
)
def test_options_of_a_remote_of_rclone_are_not_shown(url: str, shown: str) -> None:
    """Passwords are among them; of others all is shown."""
    text = show_config(parse(f'[[copy]]\nname = "n"\nof = "/a"\nurl = "{url}"\n'))

    assert f'url = "{shown}"\n' in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        *(
            (f'apprise = ["{url}"]', 'apprise = ["(hidden)"]')
            for url in ("tok-en", "123:tok-en", "mailto:me:tok-en@example.org", "tok-en json://a")
        ),
        ('apprise = ["discord://tok/en"]', 'apprise = ["discord://(hidden)"]'),
        ('heartbeat_url = "https://hc.example/tok-en"', "https://"),
    ],
)
def test_secrets_are_not_shown(line: str, shown: str) -> None:
    """Of addresses that may hold a token only their kind is shown; of a mistyped one nothing."""
    text = show_config(parse(f"[alerts]\n{line}\n"))

    assert shown in text
    assert not re.search("tok[-/]en", text)


def test_missing_default_file_means_defaults_and_costs_nothing() -> None:
    """Without a config file tomllib is not imported."""
    program = (
        "import sys, integrity.config as c; assert c.load_config() == c.Config();"
        "print([name for name in ('tomllib',) if name in sys.modules])"
    )
    environment = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent"}
    if os.path.exists(default_config_path()) and os.geteuid() == 0:
        pytest.skip("this machine has a configuration of its own")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_config_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    """With its path and the reason, or how to make one; the path may be of any bytes."""
    with pytest.raises(ConfigError, match="integrity config sample"):
        load_config(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="can't read the config file"):
        load_config(str(tmp_path))
    path = os.fsencode(tmp_path) + b"/\xff.toml"
    with open(path, "wb") as file:
        file.write(b"x = 1")
    with pytest.raises(ConfigError, match=r"/\\xff\.toml:1: x: unknown key"):
        load_config(path)


def test_key_of_an_older_version_is_refused() -> None:
    """A setting that kept forgers out is not passed over in silence: the message says what replaced it."""
    with pytest.raises(ConfigError, match=r":2: seal_key_file: .* no seals with a key any more.* remove this line"):
        parse('# seals\nseal_key_file = "/etc/key"\n')


@pytest.mark.skipif(os.geteuid() != 0, reason="asks where things are for root")
def test_places_of_root_are_fixed() -> None:
    """For root nothing depends on the environment."""
    assert b"/etc/integrity/integrity.toml" == default_config_path()
    assert b"/var/lib/integrity/catalog.db" == default_catalog_path()
    assert b"/run/integrity" == default_runtime_folder()


LINES = '''\
a = 1
"b c".d = 2
[t]          # [not.this]
x = """
[no.table]
y = 1
"""
y = [
  "[",  # ]
  { z = 1 },
]
z.k = 'its'
[[r]]
p = 1
[[r]]
p = 2
[r.sub]
q = 3
'''


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (("a",), 1),
        (("b c", "d"), 2),
        (("t",), 3),
        (("t", "x"), 4),
        (("t", "y"), 8),
        (("t", "y", 1, "z"), 8),
        (("t", "z", "k"), 12),
        (("r", 0, "p"), 14),
        (("r", 1), 15),
        (("r", 1, "p"), 16),
        (("r", 1, "sub", "q"), 18),
        (("r", 0, "none"), 13),
        (("none",), 1),
    ],
)
def test_lines_of_keys_are_found(location: tuple[str | int, ...], line: int) -> None:
    """Tables, arrays of tables, dotted keys, and values over several lines do not confuse the count."""
    assert line == LineIndex(LINES).line_of(location)
