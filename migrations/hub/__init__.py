"""Numbered versions of the hub's schema. They have the environment of the catalog's."""
