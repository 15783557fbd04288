"""How fast jobs may read: a fixed ceiling, or one that follows what others do on the disk."""
