"""Audits of stored objects for API servers of other versions."""
