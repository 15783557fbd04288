"""
Backup copies: what can list, and give digests or bytes, of files that a root has.

``protocol`` says what a copy is, ``opening`` finds the kind by its URL, with a module for each. What a copy says is
hostile until looked at: ``names`` tells which paths are refused. What follows from a comparison is for others.
"""
