"""Selectors of objects by labels, and of nodes by the requirements and tolerations of pods."""
