"""Backup integrity for NAS boxes: record, scrub, judge, compare, tell."""

__version__ = "1.0.0"
