"""ResourceClaim: strategies, and the rules of spec and status."""
