"""Where a stage runs: in this process, or in killable worker processes. Both write the same parts."""
