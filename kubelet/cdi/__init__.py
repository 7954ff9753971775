"""The container device interface: drivers' spec files, and what the runtime makes of their devices."""
