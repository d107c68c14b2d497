"""What is asked: scenarios, runs, reproductions, figures, and the command line `faultline`."""
