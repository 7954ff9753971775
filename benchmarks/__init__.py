"""Measures the costs of kubeskew on this machine beside those of the real thing. Never decides a test."""
