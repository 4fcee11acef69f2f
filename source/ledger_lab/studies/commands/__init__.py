"""The commands of studies and searches, and the views of ``report.py`` that this wing adds."""
