"""Turns images of this machine (archives, directories, programs) into root file systems."""
