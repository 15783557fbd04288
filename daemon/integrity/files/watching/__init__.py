"""What ``files.watch`` is made of: one reader of events, the watched folders of one tree, one root over its lives."""
