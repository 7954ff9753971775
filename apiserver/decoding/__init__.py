"""Decodes the bodies of requests into objects: JSON, YAML and protobuf."""
