"""
Run the numbered versions of the hub's schema on the connection that is passed in.

There is no alembic.ini: ``integrity.hub.migrate`` sets the script location and passes a connection that is already in a
transaction. By default, Alembic leaves half a migration behind in SQLite when a step fails. With
``transactional_ddl`` it opens no transaction of its own, and the caller commits or rolls back all steps at once.
"""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
