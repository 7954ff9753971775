"""Checks the types of expressions."""
