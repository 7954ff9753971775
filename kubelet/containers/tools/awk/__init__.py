"""`awk`: patterns, actions, functions and arrays, as POSIX has them."""
