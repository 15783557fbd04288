"""
The text forms of digests: what md5sum, xxhsum, b3sum, hashdeep, BagIt and SFV tools write, and JSON.

One module for each form, which writes it line by line and reads it line by line; ``manifest`` recognises which one a
file has. Paths are bytes as they stand in the file; what they are relative to is for the reader's caller to know.
"""
