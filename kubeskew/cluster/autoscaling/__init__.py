"""Simulations of `kubeskew simulate`: their input, and the scheduler's plugins as their judge."""
