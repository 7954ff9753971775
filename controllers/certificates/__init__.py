"""Certificate signing requests: approved, signed, cleaned away."""
