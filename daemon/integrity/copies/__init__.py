"""
Backup copies: folders, manifests, and what SSH, S3 and rclone reach.

``protocol`` defines what a copy is, ``opening`` finds the kind of a copy by its URL, and each kind has a module. What a
copy states is hostile until it was checked: ``filenames`` decides which paths are refused. What a comparison concludes
is decided in ``jobs.compare``.
"""
