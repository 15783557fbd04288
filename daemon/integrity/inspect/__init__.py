"""Whether a file passes the check that its own format carries."""
