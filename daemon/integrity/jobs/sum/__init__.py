"""Compute and check digests without a catalog, as md5sum and hashdeep do."""
