"""The shim is the component as far as the cluster is concerned, while a real program does its work."""
