"""The controllers of Endpoints and EndpointSlices, which list the addresses of the pods that a service
selects."""
