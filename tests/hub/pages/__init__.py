"""The pages of a hub."""
