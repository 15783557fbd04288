"""The config file that is written for people: it says what was meant, and can be read back."""

from __future__ import annotations

from dataclasses import replace

from integrity.config import (
    Alerts,
    Config,
    ConfiguredCopy,
    ConfiguredRoot,
    Mail,
    RootSettings,
    Schedule,
    parse_config,
)
from integrity.config.sample import sample, write_config
from integrity.model import Policy


def read(config: Config) -> Config:
    return parse_config(write_config(config).encode(), "written")


def test_defaults_are_comments_only() -> None:
    """Without any setting the file has headings and comments, and means the defaults."""
    lines = [line for line in write_config(Config()).splitlines() if line and not line.startswith(("#", "["))]

    assert [] == lines
    assert Config() == read(Config())


def test_every_key_of_the_sample_is_there() -> None:
    """A reader finds each key with its explanation, set or not."""
    keys = {line.split(" = ")[0].removeprefix("# ") for line in sample().splitlines() if " = " in line}
    written = {line.split(" = ")[0].removeprefix("# ") for line in write_config(Config()).splitlines() if " = " in line}

    assert set() == keys - written - {
        *("path", "name", "of", "url", "behind", "read_percent", "host", "tags", "password_file", "password_command")
    }


def test_settings_are_read_back() -> None:
    """Odd names, secrets and numbers come back as they were; nothing is hidden in a file that is to be used."""
    defaults = RootSettings(verify_every_s=90 * 86400, exclude=("*.tmp",))
    common = {"verify_every_s": defaults.verify_every_s, "exclude": defaults.exclude}
    config = replace(
        Config(),
        defaults=defaults,
        roots=(
            ConfiguredRoot(path=b'/srv/a "b"\nc\x7f', policy=Policy.ARCHIVE, **common),  # type: ignore[arg-type] # their types are those of the fields above
            ConfiguredRoot(path=b"/srv/d", cross_mounts=True, verify_every_s=86400, exclude=("/backup/",)),
        ),
        copies=(ConfiguredCopy(name="nightly", of=b"/srv/d", url="ssh://nas/backup", behind_s=7200),),
        schedule=Schedule(scrub="sat,sun 00:00-24:00"),
        mail=Mail(to=("me@example.org",), password_file=b"/etc/integrity/mail-password"),
        alerts=Alerts(apprise=("ntfy://token@example.org/topic",)),
    )

    assert config == read(config)


def test_root_says_only_what_differs_from_the_defaults() -> None:
    """A root has its path, its policy, and what is special about it."""
    defaults = RootSettings(verify_every_s=90 * 86400)
    root = ConfiguredRoot(path=b"/srv/a", verify_every_s=90 * 86400)
    text = write_config(replace(Config(), defaults=defaults, roots=(root,)))
    lines = text.split("\n[[root]]\n")[1].split("\n\n")[0].splitlines()

    assert ['path = "/srv/a"', 'policy = "mutable"'] == [line.split("  ")[0] for line in lines]
