"""The hub: what many boxes report, which of their copies are wrong, and shared trees that several boxes read."""
