"""The code that every component shares: the API catalogue, versions and gates, patches, client, clock."""
