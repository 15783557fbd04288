"""
What hashing costs on this machine: one module per table, all of them measured in the same way.

``tables`` makes the rows of any table, ``rows`` says what a row is, ``plot`` draws rows. ``costs`` decides how time is
taken, ``turns`` in which order, ``allocation`` how memory is measured, ``programs`` which other tools are asked and
``workspace`` which files are hashed. Nothing here needs a catalog or a configuration, and nothing stays behind.
"""
