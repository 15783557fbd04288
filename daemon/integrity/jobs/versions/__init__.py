"""What the versions of a backup say: of one file, and of what changed in them without anybody writing to it."""
