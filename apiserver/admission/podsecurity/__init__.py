"""Enforces the Pod Security Standards, at the levels in a namespace's labels.

`checks` holds what the levels check, `evaluation` reads the labels and runs the checks, `plugin` is the
admission plugin.

Source: k8s.io/pod-security-admission, 1.36.
"""
