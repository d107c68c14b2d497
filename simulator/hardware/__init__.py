"""Broken components, and the machines that replace them."""
