"""Install the service as a systemd unit."""
