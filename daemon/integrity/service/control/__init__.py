"""Serve commands through the control socket."""
