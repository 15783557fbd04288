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

    from integrity.web.site import Site


class SettingsPage:
    """The page about the configuration."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        """Return the route."""
        return (read_at("/settings", self.show),)

    def show(self, request: Request) -> Response:
        """Show every key."""
        return self._site.render(
            request,
            "settings.html",
            title="Settings",
            place=self._site.config_place,
            sections=list_settings(self._site.config),
        )
