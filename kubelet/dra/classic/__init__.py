"""Classic DRA on a node, 1.26 to 1.30: drivers get the handles that their controllers wrote into claims."""
