"""Paths of the server that are no resources: discovery, OpenID, announcements."""
