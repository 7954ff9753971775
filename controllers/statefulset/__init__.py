"""The stateful set controller."""
