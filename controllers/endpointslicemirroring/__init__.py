"""Mirrors Endpoints that users write into EndpointSlices."""
