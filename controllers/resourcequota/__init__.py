"""Measures the usage of quotas and writes it to their status."""
