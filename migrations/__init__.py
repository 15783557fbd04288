"""Numbered versions of the schemas: of the catalog, and in ``hub``, with Alembic, of the hub's database."""
