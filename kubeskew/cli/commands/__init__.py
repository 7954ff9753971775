"""Holds the commands, one module per group; each parses, builds a value and calls one function."""
