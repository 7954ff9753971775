"""The cluster file: its keys, of which its reader, its schema and its reference are made."""
