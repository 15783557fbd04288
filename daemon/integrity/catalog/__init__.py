"""
The catalog: everything that integrity remembers, and the only SQL.

Import the module of the subject (``catalog.connect``, ``catalog.files``, ``catalog.findings``, ...). All functions
take a connection that came from ``Catalog.transaction()`` or ``Catalog.read()``; nothing else commits.
"""
