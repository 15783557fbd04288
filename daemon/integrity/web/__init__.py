"""Publish the state of the catalog to other programs: metrics."""
