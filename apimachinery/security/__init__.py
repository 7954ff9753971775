"""Reads and writes certificates, requests for them, and signed tokens."""
