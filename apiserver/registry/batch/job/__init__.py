"""Job: strategy, and the rules of spec and status."""
