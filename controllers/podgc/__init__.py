"""Removes pods of nodes that are gone, and terminated pods beyond a threshold."""
