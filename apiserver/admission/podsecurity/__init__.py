"""PodSecurity: the Pod Security Standards, as a namespace's labels ask for them.

`policies` reads the labels, `baseline` and `restricted` hold the checks, `evaluating` runs them, `plugin` is
the admission plugin.

Source: k8s.io/pod-security-admission, 1.36.
"""
