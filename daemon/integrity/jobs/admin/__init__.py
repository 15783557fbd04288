"""Carry out what a person decides about files, copies, and roots."""
