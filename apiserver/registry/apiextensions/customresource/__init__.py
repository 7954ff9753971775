"""Registers the objects of custom resources."""
