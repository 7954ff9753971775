"""Serves sockets: TLS, HTTP/1.1, streams and upgrades. Nothing here knows what a resource is."""
