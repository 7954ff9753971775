"""Holds the ways a request changes an object that exists: server-side apply, and patches."""
