"""
Manifests: files of digests that others can read, and that others wrote.

``exporting`` writes what is recorded, without reading a file. ``importing`` makes a manifest the baseline of files that
have none, each of which is read and found equal first.
"""
