"""Evaluates checked expressions."""
