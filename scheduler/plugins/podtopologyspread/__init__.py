"""The PodTopologySpread plugin and its constraints."""
