"""Decoding of request bodies into objects: JSON, YAML and protobuf."""
