"""Progress of live runs, forecasts of spend, and alerts about what wastes money."""
