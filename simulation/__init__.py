"""Runs a whole cluster in one process, explores what can go wrong in it, and judges what happened."""
