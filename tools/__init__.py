"""Programs that generate files of the repository: pages of the documentation, and the USD files of the package."""
