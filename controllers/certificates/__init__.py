"""Approves, signs and cleans up certificate signing requests."""
