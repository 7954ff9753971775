"""The API server: HTTP front, request pipeline, registry of resources, event store, watch."""
