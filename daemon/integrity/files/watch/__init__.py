"""Hear from inotify which folders changed: hints, never proof that nothing did."""
