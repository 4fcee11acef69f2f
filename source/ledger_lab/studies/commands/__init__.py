"""The commands of studies and searches."""
