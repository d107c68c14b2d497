"""The parts of the SPARe reproduction: published numbers, cells, fabric, tables, figures."""
