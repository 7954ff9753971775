"""Holds the functions that expressions may call, by library."""
