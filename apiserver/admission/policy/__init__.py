"""Admits requests by policies: CEL in objects of the API, instead of a webhook."""
