"""Decide whether each file and its backup copy agree, and which of them is damaged if not."""
