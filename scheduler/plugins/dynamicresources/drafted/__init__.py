"""DynamicResources as KEP-3063's draft has it: what is negotiated about a claim stands in its status."""
