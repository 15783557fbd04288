"""
What ``sum`` does with digests without a catalog: which files are meant, check, match, audit.

Nothing here prints: what was found out are values, in the order in which they are to be told.
"""
