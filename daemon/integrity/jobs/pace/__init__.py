"""Decide how fast a device may be read while others use it."""
