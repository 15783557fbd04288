"""
Export and import manifests: files of digests for other tools.

``exporting`` writes recorded digests without reading files. ``importing`` makes a manifest the baseline of files that
have none; each file is read and compared first.
"""
