"""Backup integrity for NAS boxes: record, scrub, judge, compare, tell."""

__version__ = "0.1.0"
