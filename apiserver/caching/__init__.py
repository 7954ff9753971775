"""Holds what is kept to be fast, work off the event loop, and the control of garbage collection."""
