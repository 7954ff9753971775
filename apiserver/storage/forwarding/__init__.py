"""One process writes the log for the workers of an API server, which read it by themselves."""
