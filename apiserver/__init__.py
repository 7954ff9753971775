"""The API server: HTTP server, request pipeline, registry of resources, event store, watch."""
