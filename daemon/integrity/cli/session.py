"""What all commands share: global options, the configuration, the catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from integrity import program
from integrity.cli.output import Output, set_up_streams
from integrity.cli.terminal import set_up_logging
from integrity.errors import CatalogExists, CatalogMissing, ConfigError, show_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.files.excludes import TreeScope


class Session:
    """
    One call of the program.

    Args:
        catalog_option: of ``--catalog``; None for the config's.
    """

    def __init__(self, config_path: bytes | None = None, catalog_option: bytes | None = None) -> None:
        self.config_path = config_path
        self.catalog_option = catalog_option
        self.output = Output()
        self.typed: dict[str, object] = {}  # the global options of the command line, before or behind the command
        self.shard: TreeScope | None = None  # the catalog is a local copy of that of this part of a shared tree

    def take_option(self, name: str, value: Any, *, is_typed: bool) -> None:
        """
        Take over a global option; what is behind the command comes last.

        Raises:
            ValueError: it was typed before, with another value.
        """
        former = self.typed.get(name, value) if is_typed else value
        if former != value and name != "verbose":
            raise ValueError("given twice, with different values; leave one out")
        if is_typed:
            self.typed[name] = value
        match name:
            case "config_path":
                self.config_path = value
            case "catalog":
                self.catalog_option = value
            case "verbose":
                self.output = self.output._replace(verbosity=self.output.verbosity + value)
            case "quiet":
                self.output = self.output._replace(is_quiet=value)
            case "is_json":
                self.output = self.output._replace(is_json=value)
            case "color":
                self.output = self.output._replace(color=value)

    def set_up_output(self) -> None:
        """Set up streams and logging as the options so far say."""
        set_up_streams(is_json=self.output.is_json)
        set_up_logging(self.output.verbosity)

    @cached_property
    def config(self) -> Config:
        """Read the configuration when it is first needed."""
        from integrity.config import load_config

        return load_config(self.config_path)

    @property
    def config_place(self) -> bytes:
        """Return the absolute path of the configuration file, whether or not it exists."""
        from integrity.config import default_config_path

        return default_config_path() if self.config_path is None else os.path.abspath(self.config_path)

    @property
    def catalog_path(self) -> bytes:
        """
        Name the catalog's file.

        Raises:
            ConfigError: the name can't be that of a catalog.
        """
        path = self.config.catalog if self.catalog_option is None else _parse_place(self.catalog_option)
        if os.path.isdir(path):
            raise ConfigError(
                f"{show_path(path)}: is a folder, and the catalog is a file: name one in it, such as"
                f" {show_path(os.path.join(path, b'catalog.db'))}"
            )
        return path

    @property
    def is_catalog_named(self) -> bool:
        """Say whether the user chose a catalog, by option, environment or configuration."""
        from integrity.config import default_catalog_path

        return self.catalog_option is not None or self.config.catalog != default_catalog_path()

    def fail(self, text: str, exit_code: int) -> int:
        """Say why the command ends, and return the exit code."""
        self.output.fail(text, exit_code)
        return exit_code

    @contextmanager
    def open_catalog(self, *, writes: bool) -> Iterator[Catalog]:
        """
        Open the catalog that exists, and warn of what is unwise about it.

        Raises:
            CatalogError: and its kinds; CatalogMissing says how to begin.
        """
        path = self.catalog_path
        if _is_missing(path):
            raise CatalogMissing(_say_missing(path, self._find_backups()))
        from integrity.catalog.connection import Catalog

        with Catalog.open(path, writes=writes) as catalog:
            for warning in catalog.warnings:
                self.output.warn(warning)
            if catalog.before_upgrade is not None:
                copy = show_path(catalog.before_upgrade)
                self.output.say(f"{show_path(path)}: was upgraded for this version; as it was before: {copy}")
            yield catalog

    @contextmanager
    def open_for_job(self, paths: Sequence[bytes], *, records: bool = True) -> Iterator[Catalog]:
        """
        Open the catalog for writing; where there is none, make one for a job that has something to put into it.

        Args:
            paths: what the job is for, everything if empty; checked first, so that a slip of the pen makes no catalog.
            records: the job records what is not in the catalog; for others there must be one.
        """
        path = self.catalog_path
        if _is_missing(path):
            self._create_catalog(path, paths, records=records)
        with self.open_catalog(writes=True) as catalog:
            yield catalog

    def _create_catalog(self, path: bytes, paths: Sequence[bytes], *, records: bool) -> None:
        """Make an empty catalog; one that another program has made since is as good."""
        from integrity.catalog.connection import Catalog
        from integrity.config import default_catalog_path

        backups = self._find_backups()
        if backups and _is_missing(path):
            # A new catalog would know none of the old baselines: whatever rotted since would be recorded as good.
            raise CatalogMissing(_say_missing(path, backups))
        if not paths:
            _require_any_folder([root.path for root in self.config.roots])
        if not records:
            raise CatalogMissing(_say_missing(path, ()))
        is_default = path == default_catalog_path()
        if self.catalog_option is not None and not is_default and not os.path.isdir(os.path.dirname(path)):
            raise ConfigError(
                f"--catalog: there is no folder {show_path(os.path.dirname(path))} for the catalog; make it, or correct"
                " the path"
            )
        _require_folders(paths)
        with suppress(CatalogExists), Catalog.create(path):
            self.output.say(f"A new catalog was made: {show_path(path)}")

    @property
    def backup_folder(self) -> bytes:
        """Name the folder of the catalog's backups; empty for the catalog's own."""
        return self.config.catalog_backup.folder

    def _find_backups(self) -> list[bytes]:
        from integrity.catalog.own_files import find_backups

        return list(find_backups(self.catalog_path, self.backup_folder))


def _parse_place(place: bytes) -> bytes:
    """Make an absolute path of what ``--catalog`` says."""
    scheme, found, rest = place.partition(b"://")
    if found and scheme != b"sqlite":
        raise ConfigError(f"{show_path(place)}: only a path, or sqlite:///PATH, can be used as the catalog")
    name = rest.removeprefix(b"/") if found else place
    if not name:
        raise ConfigError("--catalog: the path of the catalog is empty; name its file, or leave the option out")
    # POSIX lets two slashes at the beginning stand; SQLite sees a host name in them.
    return b"/" + os.path.abspath(name).lstrip(b"/")


def _is_missing(path: bytes) -> bool:
    """Say whether there is certainly no catalog; why one can't be looked at is for opening it to explain."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        from integrity.catalog.own_files import is_being_restored

        return not is_being_restored(path)  # the former one was put aside already, and opening it ends the restore
    except OSError:
        return False
    return False


def _say_missing(path: bytes, backups: Sequence[bytes]) -> str:
    if backups:
        return (
            f"no catalog at {show_path(path)}, but backups of it, the newest being {show_path(backups[-1])}:"
            f" bring it back with: {program.command('catalog restore')}; to begin anew all the same, move the"
            " backups away"
        )
    return (
        f"no catalog at {show_path(path)}: nothing has been recorded yet; start with: {program.command('scan FOLDER')}."
        f" If you recorded it elsewhere, bring that catalog: {program.command('catalog restore FOLDER')}"
    )


def _require_folders(paths: Sequence[bytes]) -> None:
    """Refuse what can't become a root before a catalog is made for it."""
    from integrity.jobs.targets import refuse_nested

    for path in paths:
        if not os.path.isdir(path):
            what = "is a file; name the folder that it lies in" if os.path.exists(path) else "there is no such folder"
            raise ConfigError(f"{show_path(path)}: {what}")
    refuse_nested(paths)


def _require_any_folder(configured: Sequence[bytes]) -> None:
    """Refuse to make a catalog if there is nothing to put into it; configured roots may come later."""
    if not configured:
        raise ConfigError(f"no folder is recorded yet; name one: {program.command('scan FOLDER')}")
    if not any(os.path.isdir(path) for path in configured):
        _require_folders(configured)
