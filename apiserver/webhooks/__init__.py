"""Calls webhooks and extension servers over HTTPS, with Go's words when that fails."""
