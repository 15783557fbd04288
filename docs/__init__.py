"""The manual: pages for people, shipped in the wheel as ``integrity.docs`` and printed by ``integrity manual``."""
