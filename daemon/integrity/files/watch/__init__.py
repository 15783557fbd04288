"""Learn from inotify which folders changed: events are hints, and silence proves nothing."""
