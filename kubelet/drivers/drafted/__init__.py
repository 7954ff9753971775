"""The example driver as KEP-3063 had drafted drivers: its services on a node, and its controller."""
