"""Serves the page of a ledger on loopback, to whoever knows the token. Nothing here can change anything."""
