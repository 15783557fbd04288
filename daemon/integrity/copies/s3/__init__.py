"""Copies in S3: what the store states of its objects, compared without downloading them."""
