"""
Hold the catalog against a backup copy: which copy is meant, what it says of each file, and who is right.

Nothing is concluded from a listing that is not whole, and nothing that could not be compared is called good.
"""
