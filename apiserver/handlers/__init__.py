"""Holds the handlers of allowed requests: one module per verb."""
