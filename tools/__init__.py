"""What generates parts of the documentation."""
