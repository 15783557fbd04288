"""Bring the catalog up to date with a folder: new, changed, moved, and missing files."""
