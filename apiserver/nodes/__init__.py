"""API server's side of the kubelets: addresses, connections, answers."""
