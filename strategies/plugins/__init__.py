"""Finds schemes and protections by name, also those of users, and guards calls into them."""
