"""A control plane that is shown as pods, as kind does it: a node, static pods, add-ons."""
