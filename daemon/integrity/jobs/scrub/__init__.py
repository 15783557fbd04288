"""Re-read recorded files from the disk, and decide which are due."""
