"""One module per group of commands; each parses, builds a value and calls one function."""
