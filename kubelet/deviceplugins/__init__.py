"""Device plugins: the kubelet's side of `v1beta1`, and which devices its pods have."""
