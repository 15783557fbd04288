"""
The catalog: the database of everything that integrity records, and the only package with SQL.

Import the module that you need (``catalog.connection``, ``catalog.files``, ``catalog.findings``, ...). All functions
take a connection from ``Catalog.transaction()`` or ``Catalog.read()``. Only ``Catalog.transaction()`` commits.
"""
