"""The daemon set controller."""
