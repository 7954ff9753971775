"""The controller that answers ResourcePoolStatusRequests with the numbers of available devices."""
