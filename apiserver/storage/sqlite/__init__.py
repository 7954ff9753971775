"""The log in SQLite: the embedded database, a file with another beside it that guards it."""
