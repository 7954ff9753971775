"""The kubelet's HTTPS server: logs, exec, attach, port-forward and what else the API server asks of a node."""
