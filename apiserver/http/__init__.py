"""HTTP server: TLS, HTTP/1.1, streams and upgrades, without any knowledge of resources."""
