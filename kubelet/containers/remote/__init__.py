"""Runs containers by CRI v1 on a container runtime of the machine: containerd, CRI-O, `kubeskew cri`."""
