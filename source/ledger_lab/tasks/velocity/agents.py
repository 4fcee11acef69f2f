"""The agents' configurations of the velocity tasks, translated from one recipe each."""

from ledger_lab.recipes.velocity import velocity
from ledger_lab.tasks.translations import translations

rsl_rl_flat_anymal_c, rl_games_flat_anymal_c, skrl_flat_anymal_c = translations(velocity("flat_anymal_c"))
rsl_rl_rough_anymal_c, rl_games_rough_anymal_c, skrl_rough_anymal_c = translations(velocity("rough_anymal_c"))
rsl_rl_flat_go2, rl_games_flat_go2, skrl_flat_go2 = translations(velocity("flat_go2"))
