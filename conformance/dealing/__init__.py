"""Deals the cells of a run out, and brings together what came of them."""
