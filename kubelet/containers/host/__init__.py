"""Runs containers as processes of this machine: images, namespaces, cgroups and logs."""
