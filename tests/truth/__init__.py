"""
The truth matrix: every kind of damage and of honest change, on every kind of file system, against the planted truth.

``disks`` damage bytes below a file system, ``tree`` changes files and knows what their bytes should be, ``cases`` is
the table of what is done, ``campaign`` has the program look at it and counts what it missed, and whom it accused.

For comparisons with copies: ``habits`` are those of copies and worlds, ``places`` the sides of a comparison, ``lives``
what happens to a file, ``worlds`` all of it with the program in between, ``oracle`` what may be said, ``advice`` what
becomes of files when it is followed, and ``histories`` plays worlds.
"""
