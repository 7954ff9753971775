"""Log in SQLite: the embedded database, a file with another one next to it that guards it."""
