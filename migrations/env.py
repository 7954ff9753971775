"""Connects Alembic to the event store, by the connection it is handed or the URL it is given.

`alembic -c migrations/alembic.ini -x url=sqlite:///FILE upgrade head` is the command line's way in.
"""

import sqlalchemy
from alembic import context
from sqlalchemy import Connection

from kubeskew.migrations import tables


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=tables.metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    """Runs online; there is no offline mode, for nobody reviews the SQL of an embedded database."""
    given = context.config.attributes.get("connection")
    if isinstance(given, Connection):
        run(given)
        return
    engine = sqlalchemy.create_engine(context.get_x_argument(as_dictionary=True)["url"])
    with engine.connect() as connection:
        run(connection)
    engine.dispose()


main()
