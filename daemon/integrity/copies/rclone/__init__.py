"""Copies that rclone reaches: what a remote states of its files, and their bytes."""
