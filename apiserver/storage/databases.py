"""Opens the database at a URL: of SQLite, or of PostgreSQL where the URL begins so."""

from kubeskew.apiserver.storage.sessions import Database
from kubeskew.apiserver.storage.urls import SQLITE, backend_of


async def open_database(url: str, *, read_only: bool = False) -> Database:
    """Opens the database of `url`, and gives it the newest schema unless it is only read.

    Raises StorageError, also if there is none to read.
    """
    if backend_of(url) == SQLITE:
        from kubeskew.apiserver.storage.sqlite.database import SQLiteDatabase

        return await SQLiteDatabase.open(url, read_only=read_only)
    from kubeskew.apiserver.storage.postgresql.database import PostgreSQLDatabase

    return await PostgreSQLDatabase.open(url, read_only=read_only)
