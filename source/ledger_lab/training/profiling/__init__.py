"""Times of the parts of a training iteration."""
