"""Audits stored objects for another version, and writes them anew."""
