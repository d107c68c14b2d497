"""Plug-in schemes: a package skeleton, and a check of the scheme contract."""
