"""Allocates devices to claims on a node: a pure search, without any I/O.

Source: k8s.io/dynamic-resource-allocation/structured, 1.31 … 1.36. All objects have the v1 shape.
"""
