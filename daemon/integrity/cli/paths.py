"""How a path is written, for commands: what alerts need as well stands further down."""

from integrity.paths import absolute, path_fields, shell_path

__all__ = ["absolute", "path_fields", "shell_path"]
