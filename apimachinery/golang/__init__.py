"""Decodes bodies and objects as Go does: JSON, YAML, and structs with the errors they give."""
