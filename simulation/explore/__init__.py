"""Exploration of cells: many seeded simulations with faults, and findings that can be repeated."""
