"""What writes the USD files of robots and ground that the package ships."""
