"""
The files of a root: walking, opening and reading them, and what their file system can be trusted with.

All that touches a watched tree sits here, and all of it only reads. Nothing here knows of a catalog or of verdicts.
"""
