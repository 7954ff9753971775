"""The kubelet's gRPC interfaces: messages, and the services' methods as typed values."""
