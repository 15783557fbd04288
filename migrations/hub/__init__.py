"""Numbered versions of the hub's schema, for Alembic."""
