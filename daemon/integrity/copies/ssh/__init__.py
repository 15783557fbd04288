"""Copies on another machine: digests computed there by a shell, or bytes over SFTP."""
