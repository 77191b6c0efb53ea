"""Video files: what they hold, their frames with their own times, and canonical clips."""
