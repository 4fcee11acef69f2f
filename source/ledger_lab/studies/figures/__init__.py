"""Figures of scaling studies and searches, as files and on pages."""
