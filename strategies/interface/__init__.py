"""What a scheme is: its plan, its verdicts on failures, and the job as it sees it."""
