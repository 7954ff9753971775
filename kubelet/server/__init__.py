"""The kubelet's HTTPS server: logs, exec, attach, port-forward, metrics and stats."""
