"""Decides whether a node admits a pod, and what a resized pod is given."""
