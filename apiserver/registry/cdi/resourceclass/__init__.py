"""Holds what is particular to ResourceClass of cdi.k8s.io."""
