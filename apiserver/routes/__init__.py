"""Serves the paths that are no resources: discovery, OpenID, announcements."""
