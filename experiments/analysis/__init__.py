"""The analysis of a sweep: means with intervals, paired comparisons, the course of one run."""
