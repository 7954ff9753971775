"""Commands, one module per group; each parses its arguments, builds a value and calls one function."""
