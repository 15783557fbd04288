"""Shared trees: cut into shards that many workers read, each with a catalog of its own."""
