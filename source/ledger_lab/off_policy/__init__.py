"""SAC and TD3: recipes, replay memories and adapters of the libraries."""
