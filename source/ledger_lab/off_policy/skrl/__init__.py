"""SAC and TD3 of SKRL."""
