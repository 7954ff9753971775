"""Finds plugins by their sockets in the registry, asks for their names and services, and registers them."""
