"""Jobs: scan, scrub and the modules they share. The command line and the scheduler start them through ``runner``."""
