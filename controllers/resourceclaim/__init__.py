"""The resource claim controller: claims from templates, reservations of pods that are done, deallocation."""
