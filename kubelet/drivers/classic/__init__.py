"""The example driver of classic DRA, 1.26 to 1.31: its services on a node, and its controller."""
