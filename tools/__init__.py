"""What generates files of the repository: parts of the documentation, and the USD files of the package."""
