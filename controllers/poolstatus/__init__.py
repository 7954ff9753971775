"""The controller that answers ResourcePoolStatusRequests: how many devices of a driver's pools are left."""
