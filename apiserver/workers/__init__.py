"""An API server of several processes behind one port, which clients and clusters take for one."""
