"""Holds the admission plugins that are compiled in, one per module."""
