"""Jobs: scan, scrub and what belongs to them. Command line and scheduler meet in ``runner``."""
