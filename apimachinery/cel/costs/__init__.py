"""Estimates and counts the costs of expressions."""
