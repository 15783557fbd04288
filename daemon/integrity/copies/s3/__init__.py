"""Copies in S3, compared without a download by the checksums that the store states."""
