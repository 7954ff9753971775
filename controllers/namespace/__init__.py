"""Empties namespaces that are being deleted, then lets them go."""
