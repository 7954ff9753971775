"""A control plane that shows itself as pods, as kind makes it: a node, static pods, add-ons."""
