"""Upstream compiles these admission plugins in; flags turn them on and off."""
