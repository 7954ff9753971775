"""The formats of the kubelet's checkpoints of CPUs, memory and resized pods, as each minor reads and writes
them."""
