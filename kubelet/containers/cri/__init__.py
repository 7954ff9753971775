"""CRI v1 on the node's container runtime: what real kubelets run their pods on."""
