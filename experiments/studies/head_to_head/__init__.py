"""All schemes on one platform, with one model, under the same failures: a table and a map."""
