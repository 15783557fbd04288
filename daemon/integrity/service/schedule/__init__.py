"""Decide when scans, scrubs and comparisons start."""
