"""Programs that write the USD files of robots and ground in the package."""
