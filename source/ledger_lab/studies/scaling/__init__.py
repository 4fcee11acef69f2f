"""How rate, samples and time to the target change with the number of processes and the batch."""
