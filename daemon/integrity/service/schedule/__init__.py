"""Decide when scans, scrubs, and comparisons begin."""
