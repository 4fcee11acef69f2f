"""What studies and searches add to reports."""
