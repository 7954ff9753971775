"""Plugins that show themselves by a socket in the registry: found, asked who they are, registered."""
