"""Alembic migrations of the event store's own schema."""
