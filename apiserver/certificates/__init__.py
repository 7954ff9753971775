"""Certificate signing requests: what they contain."""
