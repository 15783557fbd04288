"""Recovery data in the format PAR2, with which damaged files are healed without a backup."""
