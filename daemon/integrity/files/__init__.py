"""
Read the files of a root: walk, watch, open and read it, and determine what its file system guarantees.

Only ``replace_file`` and ``open_beneath.make_folder_at`` write; everything else here only reads. Nothing here knows the
catalog or verdicts.
"""
