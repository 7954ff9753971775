"""Runs a component as a process: its machine, its start and end, its health, its log."""
