"""Decide what a reading means for a recorded file: intact, changed, or damaged."""
