"""What a sweep says: means with intervals, paired comparisons, the course of one run."""
