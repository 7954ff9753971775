"""Measures the costs of kubeskew on this machine, next to those of the real thing. Never decides a test."""
