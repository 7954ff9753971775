"""Chooses victims so that a pod of higher priority fits, and evicts them."""
