"""What was asked of ``integrity sum``, and what can't be asked at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class SumOptions:
    """
    The options, as they were given.

    Attributes:
        names: at least one.
        chosen: names of algorithms; empty for the default.
        style: "gnu", "bsd", "hashdeep", or None for the default.
        mark: of the mode, in GNU lines; None for the default.
        told: "quiet", "status", "warn", or None.
        matches: manifests of ``--match``; at most one of the three is given.
        excludes: manifests of ``--not-match``.
        audits: manifests of ``--audit``.
    """

    names: tuple[bytes, ...]
    chosen: tuple[str, ...]
    is_recursive: bool
    style: str | None
    is_zero: bool
    mark: str | None
    piece_bytes: int | None
    is_check: bool
    told: str | None
    is_strict: bool
    ignores_missing: bool
    matches: tuple[bytes, ...]
    excludes: tuple[bytes, ...]
    audits: tuple[bytes, ...]
    jobs: int | None

    @property
    def known(self) -> tuple[bytes, ...]:
        """The manifests that files are held against, in any of the three ways."""
        return self.matches or self.excludes or self.audits

    def validate(self) -> None:
        """
        Refuse options that contradict each other.

        Raises:
            click.UsageError: says which.
        """
        if sum((self.is_check, bool(self.matches), bool(self.excludes), bool(self.audits))) > 1:
            raise click.UsageError("--check, --match, --not-match and --audit exclude each other")
        self._refuse_without_check()
        if self.is_check or self.known:
            self._refuse_while_comparing()
        elif len(set(self.chosen)) > 1 and (self.style == "gnu" or self.mark is not None):
            raise click.UsageError("lines of md5sum have one algorithm each: for several take --tag or --hashdeep")
        if self.style == "hashdeep" and self.is_zero:
            raise click.UsageError("--zero has no meaning in a file of hashdeep")
        if self.style in ("bsd", "hashdeep") and self.mark is not None:
            raise click.UsageError("--binary and --text have a meaning only in lines of md5sum")

    def _refuse_without_check(self) -> None:
        given = [(f"--{self.told}", self.told is not None), ("--strict", self.is_strict)]
        given.append(("--ignore-missing", self.ignores_missing))
        for option, is_given in given:
            if is_given and not self.is_check:
                raise click.UsageError(f"the {option} option is meaningful only when verifying checksums")

    def _refuse_while_comparing(self) -> None:
        given = [
            ("--tag, --untagged and --hashdeep", self.style is not None and not (self.matches or self.excludes)),
            ("--binary and --text", self.mark is not None),
            ("--piecewise", self.piece_bytes is not None),
            ("--recursive", self.is_check and self.is_recursive),
        ]
        for option, is_given in given:
            if is_given:
                raise click.UsageError(f"{option}: meaningless when files are held against digests")
