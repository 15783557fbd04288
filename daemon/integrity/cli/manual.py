"""``integrity manual``: the pages of the manual, and the man pages that are made of help and configuration."""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from integrity import __version__, program
from integrity.cli.exitcodes import TABLE, ExitCode
from integrity.cli.params import PATH, TASKS, examples
from integrity.cli.session import Session
from integrity.config.definition import Config, ConfiguredCopy, ConfiguredRoot, RootSettings
from integrity.config.load import key_of
from integrity.config.sample import list_settings
from integrity.errors import ConfigError, show_path
from integrity.views.manual import find_manual_pages, read_title


@click.command(
    epilog=examples(
        ("integrity manual", "list the pages"),
        ("integrity manual rot", "what bit rot means, and what to do"),
    )
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--man-pages", type=PATH, metavar="FOLDER", help="Write the man pages below FOLDER, such as /usr/local/share/man."
)
@click.pass_context
def manual(context: click.Context, topics: tuple[str, ...], man_pages: bytes | None) -> int:
    """
    Print pages of the manual, such as what a kind of finding means.

    Without TOPIC: the list of pages. Findings name the page that explains them.
    """
    session: Session = context.obj
    if man_pages is not None:
        _write_man_pages(context, man_pages)
        return ExitCode.OK
    pages = find_manual_pages()
    unknown = [topic for topic in topics if topic not in pages]
    if unknown:
        raise ConfigError(
            f"there is no page {unknown[0]}; all pages:  {program.command('manual')}; what owners ask:"
            f"  {program.command('manual faq')}"
        )
    if not topics:
        width = max(map(len, pages))
        for name, page in pages.items():
            session.output.tell(f"{name:<{width}}  {read_title(page)}")
    for topic in topics:
        text = pages[topic].read_text(encoding="utf-8")
        session.output.give("page", {"topic": topic, "text": text})
        for line in _to_plain_text(text):
            session.output.tell(line)
    return ExitCode.OK


def _to_plain_text(text: str) -> Iterator[str]:
    """Yield the lines of a page without what only a browser needs: comments, fences, the targets of links."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^]]+)\]\((?:[\w./]*/)?index\.md\)", r"\1 (integrity manual)", text)
    text = re.sub(r"\[([^]]+)\]\((?:[\w./]*/)?([\w-]+)\.md(?:#[\w-]+)?\)", r"\1 (integrity manual \2)", text)
    text = re.sub(r"^!\[.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text)
    is_code = False
    for line in text.rstrip("\n").splitlines():
        if line.startswith("```"):
            is_code = not is_code
        else:
            yield f"    {line}" if is_code and line else line


def _write_man_pages(context: click.Context, folder: bytes) -> None:
    """Write every man page into the folder of its section, which is made if it is missing."""
    top = context.find_root()
    assert isinstance(top.command, click.Group)
    try:
        for name, text in write_man_pages(top.command, top):
            place = os.path.join(folder, os.fsencode(name))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"{show_path(folder)}: can't write the man pages: {error.strerror}") from error


_SECTIONS = {"integrity-daemon": 8, "integrity.toml": 5}
_CONFIG = ("/etc/integrity/integrity.toml", "configuration of root and of the service")
_CATALOG = ("/var/lib/integrity/catalog.db", "catalog of root and of the service")
_SOCKET = ("/run/integrity/control.sock", "socket through which commands reach the service")
_FILES = (
    _CONFIG,
    ("~/.config/integrity/integrity.toml", "configuration of another user"),
    _CATALOG,
    ("~/.local/state/integrity/catalog.db", "catalog of another user"),
    _SOCKET,
)
_DAEMON_FILES = (
    _CONFIG,
    _CATALOG,
    _SOCKET,
    ("/etc/systemd/system/integrity.service", "unit that `integrity service install` writes"),
)
_VARIABLES = (
    ("INTEGRITY_NATIVE", "implementation of MD5: `off`, or the widest path of the C core that may be used"),
    ("NO_COLOR", "if set, no colors are used"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR", "base folders of configuration, catalog and socket"),
    ("TMPDIR", "folder for temporary files"),
)
_SIGNALS = (
    ("SIGHUP", "read the configuration again; one with errors is refused"),
    ("SIGTERM, SIGINT", "stop; finished work is kept"),
)
_FIRST_STEPS = (
    ("integrity scan /srv/photos", "record a folder"),
    ("integrity scrub /srv/photos", "read all of its files again from the disk and verify them"),
    ("integrity status", "show what was verified when, and what is wrong"),
    ("integrity manual", "list the pages that explain findings and everything else"),
)
_DAEMON_EXAMPLES = (
    ("integrity service install --now", "run it under systemd, now and at each boot"),
    ("integrity daemon --self-test", "damage a test file, and see whether mail about it arrives"),
)
_ESCAPES = str.maketrans({"\\": "\\e", "-": "\\-", '"': "\\(dq", "~": "\\(ti", "^": "\\(ha"})
_EXAMPLE_CONFIG = """
catalog = "/var/lib/integrity/catalog.db"

[[root]]
path = "/srv/photos"
policy = "archive"

[[copy]]
name = "nightly"
of = "/srv/photos"
url = "/mnt/backup/photos"

[mail]
to = ["you@example.org"]
"""


def write_man_pages(program: click.Group, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the path below a folder of man pages and the text of each page, in roff with the macros of man(7)."""
    commands = _find_commands(program, context)
    pages = {"integrity": _write_program(program, context, commands)}
    for name, command in commands:
        pages[f"integrity-{name}"] = _write_command(f"integrity {name}", command, context)
    pages["integrity.toml"] = _write_config()
    for name, lines in pages.items():
        others = [other for other in ("integrity", "integrity.toml", "integrity-daemon") if other != name]
        text = "\n".join([_title(name), *lines, *_section("See also", [_refer(others)])])
        section = _SECTIONS.get(name, 1)
        yield f"man{section}/{name}.{section}", text + "\n"


def _find_commands(group: click.Group, context: click.Context) -> list[tuple[str, click.Command]]:
    found = [(name, group.get_command(context, name)) for name in group.list_commands(context)]
    return [(name, command) for name, command in found if command is not None and not command.hidden]


def _title(name: str) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    return f'.TH {_escape(name.upper())} {_SECTIONS.get(name, 1)} {date} "integrity {__version__}" "integrity manual"'


def _write_program(
    program: click.Group, context: click.Context, commands: list[tuple[str, click.Command]]
) -> list[str]:
    list_of_commands = _list((f"integrity-{name}({_SECTIONS.get(f'integrity-{name}', 1)})", _summary(command))
                             for name, command in commands)  # fmt: skip
    own = [(option.envvar, f"as {option.opts[-1]}") for option in program.params if isinstance(option.envvar, str)]
    return [
        *_name("integrity", _summary(program)),
        *_section("Synopsis", [_synopsis("integrity", program, context)]),
        *_section("Description", _describe(_rest(program))),
        *_section("Options", _list_options(program, context)),
        *_section("Questions and tasks", _list(TASKS)),
        *_section("Commands", list_of_commands),
        *_section("Exit status", _list_exit_codes()),
        *_section("Environment", _list((*own, *_VARIABLES))),
        *_section("Files", _list(_FILES)),
        *_section("Examples", _list_examples(_FIRST_STEPS)),
    ]


def _write_command(path: str, command: click.Command, parent: click.Context) -> list[str]:
    """Return the lines of the page of a command; the commands of a group have a part each."""
    context = click.Context(command, info_name=path, parent=parent)
    is_daemon = path == "integrity daemon"
    lines = [
        *_name(path.replace(" ", "-"), _summary(command)),
        *_section("Synopsis", [_synopsis(path, command, context)]),
        *_section("Description", _describe(_rest(command)) or _describe([_summary(command)])),
        *_section("Options", _list_options(command, context)),
    ]
    if isinstance(command, click.Group):
        lines += _section("Commands", _write_parts(path, command, context))
    lines += _section("Exit status", _list_exit_codes())
    lines += _section("Signals", _list(_SIGNALS)) if is_daemon else []
    lines += _section("Files", _list(_DAEMON_FILES if is_daemon else (_CONFIG, _CATALOG)))
    examples = _describe(part.replace("Examples:\n", "") for part in _find_examples(command))
    return lines + _section("Examples", _list_examples(_DAEMON_EXAMPLES) if is_daemon else examples)


def _write_parts(path: str, group: click.Group, parent: click.Context) -> Iterator[str]:
    for name, command in _find_commands(group, parent):
        context = click.Context(command, info_name=f"{path} {name}", parent=parent)
        yield f'.SS "{_escape(f"{path} {name}")}"'
        yield _synopsis(f"{path} {name}", command, context)
        yield ".PP"
        yield from _describe([_summary(command), *_rest(command), *_find_examples(command)])
        yield from _list_options(command, context)


def _write_config() -> list[str]:
    """Return the lines of integrity.toml(5): every key with its default."""
    example = replace(
        Config(),
        catalog=b"/var/lib/integrity/catalog.db",
        roots=(ConfiguredRoot(path=b"/srv/photos"),),
        copies=(ConfiguredCopy(name="nightly", of=b"/srv/photos", url="/mnt/backup/photos"),),
    )
    shared = {key_of(RootSettings, name) for name in RootSettings.__dataclass_fields__}
    keys: list[str] = []
    for heading, settings in list_settings(example):
        about = _about_table(heading.strip("[]"))
        keys += [f'.SS "{_escape(heading)}"', _text(about.capitalize() + ".")] if heading else []
        own = [one for one in settings if heading != "[[root]]" or one.key not in shared]
        keys += _list((f"{one.key} = {one.value}", one.comment) for one in own)
    description = (
        "The configuration is a file in the format TOML (https://toml.io). Unknown keys are errors. Without the file,"
        " the values shown here hold; those of [[root]] and [[copy]] are examples."
        " Sizes are written as 50M or 8MiB, durations as 90s, 30m, 5h, 10d or 2w."
        " `integrity config sample` prints a commented file, `integrity config check` checks one."
    )
    return [
        *_name("integrity.toml", "Configuration of integrity."),
        *_section("Description", [_text(description)]),
        *_section("Keys", keys),
        *_section("Files", _list(_FILES[0:2])),
        *_section("Examples", _verbatim(_EXAMPLE_CONFIG)),
    ]


def _about_table(key: str) -> str:
    found = [field for name, field in Config.__dataclass_fields__.items() if key_of(Config, name) == key]
    return str(found[0].metadata["description"]) if found else ""


def _paragraphs(command: click.Command) -> list[str]:
    """Return the paragraphs of a command's help, which ends where Click stops reading it."""
    text = (command.help or "").partition("\f")[0] + f"\n\n{command.epilog or ''}"
    return [part for part in re.split(r"\n\s*\n", text.replace("\b", "\b\n").replace("\b\n\n", "\b\n")) if part.strip()]


def _summary(command: click.Command) -> str:
    return " ".join(_paragraphs(command)[0].split())


def _is_example(paragraph: str) -> bool:
    return paragraph.lstrip("\b\n ").startswith("Example")


def _rest(command: click.Command) -> list[str]:
    return [part for part in _paragraphs(command)[1:] if not _is_example(part)]


def _find_examples(command: click.Command) -> list[str]:
    return [part for part in _paragraphs(command) if _is_example(part)]


def _describe(paragraphs: Iterable[str]) -> list[str]:
    """Return paragraphs of help; one that begins with Click's backspace keeps its lines."""
    lines: list[str] = []
    for number, part in enumerate(paragraphs):
        lines += [".PP"] if number else []
        if part.lstrip().startswith("\b"):
            lines += _verbatim(part.replace("\b", ""))
        else:
            lines.append(_text(" ".join(part.split())))
    return lines


def _verbatim(text: str) -> list[str]:
    lines = [_escape(line) or ".sp" for line in textwrap.dedent(text).strip("\n").splitlines()]
    return [".nf", *(f"\\&{line}" if line.startswith(("'", "[")) else line for line in lines), ".fi"]


def _name(name: str, summary: str) -> list[str]:
    return _section("Name", [_text(f"{name} - {summary[:1].lower()}{summary[1:].rstrip('.')}")])


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = list(lines)
    return [f".SH {title.upper()}", *body] if body else []


def _synopsis(path: str, command: click.Command, context: click.Context) -> str:
    return f"\\fB{_escape(path)}\\fR " + _escape(" ".join(command.collect_usage_pieces(context)))


def _list_options(command: click.Command, context: click.Context) -> list[str]:
    records = [param.get_help_record(context) for param in command.get_params(context)]
    return _list(record for record in records if record is not None and record[1])


def _list_exit_codes() -> list[str]:
    return _list((str(code.value), meaning) for code, meaning in TABLE)


def _list_examples(examples: Iterable[tuple[str, str]]) -> list[str]:
    return _list((command, f"{words[:1].upper()}{words[1:]}.") for command, words in examples)


def _list(entries: Iterable[tuple[str, str]]) -> list[str]:
    return [line for word, meaning in entries for line in (".TP", f"\\fB{_escape(word)}\\fR", _text(meaning))]


def _refer(names: Iterable[str]) -> str:
    return ",\n".join(f".BR {_escape(name)} ({_SECTIONS.get(name, 1)})" for name in names).replace(",\n", " ,\n")


def _text(text: str) -> str:
    """Return lines of running text; what stands between backticks is bold."""
    bold = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _escape(text))
    lines = textwrap.wrap(bold, 79, break_long_words=False, break_on_hyphens=False)
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _escape(text: str) -> str:
    """Escape what roff would take for its own, but a dot at the beginning of a line."""
    return text.translate(_ESCAPES)
