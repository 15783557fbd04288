"""
The truth matrix: every kind of damage and of honest change, on every kind of file system, against the planted truth.

``disks`` damage bytes below a file system, ``tree`` changes files and knows what their bytes should be, ``cases`` is
the table of what is done, ``campaign`` has the program look at it and counts what it missed, and whom it accused.
"""
