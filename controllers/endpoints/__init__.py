"""Where a service leads: Endpoints and EndpointSlices from the pods that it selects."""
