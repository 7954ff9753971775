"""What the server does with a request that is allowed: one module per verb."""
