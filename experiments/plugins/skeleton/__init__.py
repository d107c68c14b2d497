"""Templates of a package with a scheme."""
