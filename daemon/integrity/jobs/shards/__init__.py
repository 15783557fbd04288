"""The worker of a shared tree: it reads shards of the tree for a hub."""
