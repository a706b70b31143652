"""What is kept of runs that were told: views, joined texts, and what is deleted after which time or size."""
