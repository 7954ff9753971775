"""The Container Device Interface: drivers' spec files, and the changes that the runtime makes to
containers."""
