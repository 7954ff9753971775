"""Pod: strategies, rules and subresources."""
