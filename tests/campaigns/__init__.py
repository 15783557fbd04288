"""Long campaigns of faults. Each runs a short selection in an ordinary test run, and as long as is wanted by hand."""
