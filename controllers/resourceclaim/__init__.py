"""The resource claim controller: claims from templates, reservations of ended pods, deallocation."""
