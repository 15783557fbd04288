"""What a box reports to a hub, and in which form."""
