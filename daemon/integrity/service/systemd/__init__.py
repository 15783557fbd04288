"""Install the service under systemd."""
