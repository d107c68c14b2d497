"""What decides whether this machine is fit for Faultline: versions, limits, self-tests."""
