"""The way from the API server to the kubelets: where they are, how one speaks to them, what they answer."""
