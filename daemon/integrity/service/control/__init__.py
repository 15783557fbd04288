"""Answer commands through the control socket."""
