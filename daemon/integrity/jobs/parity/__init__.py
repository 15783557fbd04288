"""Make parity sets of recorded files, renew them, and read them back."""
