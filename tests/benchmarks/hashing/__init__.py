"""
Measure what hashing costs on this machine: several tables, all measured in the same way.

``tables`` measures any table, ``measure`` decides how time is taken and in which order, ``programs`` runs other tools
and measures memory, ``workspace`` makes the files, ``plot`` draws. Needs no catalog or configuration, and leaves no
files.
"""
