"""The fake container runtime: sandboxes, containers, their programs, files and logs."""
