"""Alembic environment and the numbered versions of the catalog's schema."""
