"""Releases made of facts: the shipped catalogue, and releases imported from source trees of Kubernetes."""
