"""The program as a service: what runs by itself, and when."""
