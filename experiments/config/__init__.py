"""The scenario's schema and its language: tables, documentation, mistakes, TOML in and out."""
