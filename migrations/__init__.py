"""Alembic environment and numbered versions of the catalog's schema."""
