"""How fast Faultline is; each case is measured in a process of its own."""
