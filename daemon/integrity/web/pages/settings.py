"""The configuration in force, each value with where it comes from; secrets are hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from integrity.config.sample import list_settings
from integrity.web.query import read_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.config.sample import Setting
    from integrity.web.site import Site

    Section = tuple[str, list[Setting]]


def _select(sections: Sequence[Section], *, is_default: bool) -> list[Section]:
    """Return the headings with those of their keys that have, or do not have, their default."""
    chosen = [
        # The first key of a root or copy is its path or name.
        (
            f"{heading} {keys[0].value}" if heading.startswith("[[") else heading,
            [one for one in keys if one.is_default is is_default],
        )
        for heading, keys in sections
    ]
    return [section for section in chosen if section[1]]


class SettingsPage:
    """The page about the configuration."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the route."""
        return (read_at("/settings", self.show),)

    def show(self, request: Request) -> Response:
        """Show every key: first what the file sets to something else than the default."""
        sections = list_settings(self._site.config)
        return self._site.render(
            request,
            "settings.html",
            title="Settings",
            place=self._site.config_place,
            changed=_select(sections, is_default=False),
            defaults=_select(sections, is_default=True),
        )
