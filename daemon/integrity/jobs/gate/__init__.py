"""Decide whether a backup may be made now."""
