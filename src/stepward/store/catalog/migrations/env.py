"""Alembic's entry point: runs on the connection that ``migrating`` passes in, never on one of its own."""

from alembic import context

from stepward.store.catalog.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
