"""The environment of Alembic, in a folder of its own: it takes each file beside the versions for one."""
