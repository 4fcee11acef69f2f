"""What a training iteration consists of, measured piece by piece."""
