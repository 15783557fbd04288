"""What commands and pages show: the objects of ``--json``, and sentences for people."""
