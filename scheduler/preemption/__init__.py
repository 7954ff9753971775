"""Chooses the pods that leave so that one of higher priority fits, and evicts them."""
