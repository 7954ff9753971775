"""The kubelet's HTTPS server: logs, exec, attach, port-forward, what else is asked of a node."""
