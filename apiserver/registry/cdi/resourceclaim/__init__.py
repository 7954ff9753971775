"""Holds what is particular to ResourceClaim of cdi.k8s.io."""
