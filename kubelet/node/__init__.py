"""Keeps the Node object, its status, its lease and its directories."""
