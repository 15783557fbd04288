"""The pages of a hub: one module for each subject."""
