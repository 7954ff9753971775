"""Admits by policies: CEL kept in objects, instead of a webhook."""
