"""Calling out: HTTPS to webhooks and extension servers, with Go's words when it fails."""
