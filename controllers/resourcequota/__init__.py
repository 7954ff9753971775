"""Measures what is used of quotas and writes it into their status."""
