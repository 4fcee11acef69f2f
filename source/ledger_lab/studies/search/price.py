"""What a training of a search costs before it has run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ledger_lab.ledger.costs import Price, billable_seconds, billed_instances, energy_cost


@dataclass(frozen=True)
class TrainingPrice:
    """The price of trainings that all use the same number of devices on one machine."""

    price: Price
    """Entry of the price book, with a price per hour."""
    devices: int
    """See :func:`~ledger_lab.ledger.costs.billed_instances`."""

    @cached_property
    def per_s(self) -> float:
        """Price of a second of a long training, the energy of the user's own hardware included [USD/s]."""
        hour_usd = (self.price.usd_per_hour or 0.0) * billed_instances(self.devices, 1, self.price)
        return hour_usd / 3600 + self._energy_usd(1.0)

    def usd(self, wall_s: float) -> float:
        """Return the cost of a training in one attempt [USD], as it is billed: with the least time and whole units.

        Energy counts by the nominal power of the machine, and not at all if that is unknown.

        Args:
            wall_s: Its wall-clock time [s].
        """
        hour_usd = (self.price.usd_per_hour or 0.0) * billed_instances(self.devices, 1, self.price)
        return billable_seconds(wall_s, self.price) / 3600 * hour_usd + self._energy_usd(wall_s)

    def seconds(self, usd: float) -> float:
        """Return the longest training that does not cost more than an amount [s]; 0 if none does.

        Args:
            usd: The amount [USD].
        """
        unit_s = self.price.billing_granularity_s
        bought_s = math.floor(round(usd / self.per_s / unit_s, 6)) * unit_s
        return bought_s if bought_s >= self.price.billing_minimum_s else 0.0

    def _energy_usd(self, wall_s: float) -> float:
        """Return the price of the energy by the nominal power [USD]; 0 if the machine is rented."""
        energy = energy_cost([wall_s], self.price, devices=self.devices, machines=1)
        return 0.0 if energy is None else energy.usd
