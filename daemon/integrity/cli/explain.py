"""``integrity explain``."""

from __future__ import annotations
