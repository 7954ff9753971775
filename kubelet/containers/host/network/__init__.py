"""The network of a cluster whose containers are processes of this machine."""
