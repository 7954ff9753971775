"""Holds what verbs and subresources share: where a request acts, its body, its write, its answer."""
