"""Connects the API server to the kubelets: addresses, connections, answers."""
