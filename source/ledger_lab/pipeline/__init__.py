"""The only room that knows all rooms: one module per thing a user can do."""
