"""Keeps EndpointSlices of services: at most 100 endpoints in a slice."""
