"""Derives the status of pods from their containers, and writes it to the API server."""
