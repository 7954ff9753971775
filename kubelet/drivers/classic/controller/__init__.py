"""The library for controllers of classic DRA drivers, and an example of one."""
