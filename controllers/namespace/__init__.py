"""Empties namespaces that are being deleted, then finalizes them."""
