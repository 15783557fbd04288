"""Unit files and what installs beside them, shipped as package data."""
