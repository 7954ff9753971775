"""Counts what the API server does, in those of upstream's families that its minor has."""
