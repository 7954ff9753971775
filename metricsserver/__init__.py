"""The metrics server: usage of nodes and pods, asked of the kubelets, as the API group metrics.k8s.io.

An extension server as kubernetes-sigs/metrics-server, whose main branch of 2026 (after v0.8) is the source.
"""
