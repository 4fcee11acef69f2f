"""SAC and TD3: recipes, replay memories, agents and adapters."""
