"""Put good blocks back into damaged files, atomically, and keep what was there."""
