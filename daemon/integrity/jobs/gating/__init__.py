"""The gate before backups: what changed since it was last passed, what speaks against copying that, and the verdict."""
