"""Copies in remotes of rclone: the digests that a remote states, and the bytes of its files."""
