"""Holds what is particular to the kind Secret."""
