"""Enforces the Pod Security Standards, at the levels in a namespace's labels.

`checks` holds what the levels check; `plugin` reads the labels, runs the checks, and is the admission plugin.

Source: k8s.io/pod-security-admission, 1.36.
"""
