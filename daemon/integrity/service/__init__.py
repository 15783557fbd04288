"""Run as a service: scheduled jobs, the control socket, watching, and alerts."""
