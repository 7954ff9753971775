"""Verbs and subresources share this: where a request acts, its body, its write, its answer."""
