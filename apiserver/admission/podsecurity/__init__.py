"""Enforces the Pod Security Standards, at the levels in a namespace's labels.

`policies` reads the labels, `baseline` and `restricted` hold the checks, `evaluating` runs them, `plugin` is
the admission plugin.

Source: k8s.io/pod-security-admission, 1.36.
"""
