"""Readers of a Kubernetes source tree, one per subject; each makes facts of the catalogue's shapes."""
