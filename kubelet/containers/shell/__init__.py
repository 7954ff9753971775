"""What runs inside fake containers: a small shell, its commands, and the files they see. No processes."""
