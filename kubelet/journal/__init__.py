"""Keeps what was written to a node's files, with the revision of the event log that was current then."""
