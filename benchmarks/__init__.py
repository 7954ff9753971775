"""What kubeskew costs, measured on this machine beside what the real thing costs. Never decides a test."""
