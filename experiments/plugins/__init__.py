"""For those who write a scheme of their own: a package to begin with, and a check that it holds."""
