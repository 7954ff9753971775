"""Handlers of allowed requests: one module per verb."""
