"""Mirrors Endpoints that somebody keeps by hand into EndpointSlices."""
