"""
Run the numbered versions on a connection that the catalog hands over.

There is no alembic.ini: ``integrity.catalog.upgrade`` sets the script location and gives the connection, which is in a
transaction already. Alembic's own default for SQLite leaves half a migration behind when a step fails; with
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
