"""Holds the rules that kinds with a selector and a pod template share."""
