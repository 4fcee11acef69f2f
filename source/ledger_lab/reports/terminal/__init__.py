"""What every program prints and how it ends: console, progress, errors, exit status."""
