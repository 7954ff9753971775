"""Filters that requests pass before a handler, one per module; `apiserver.pipeline` orders them."""
