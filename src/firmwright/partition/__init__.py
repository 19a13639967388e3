"""Cut a QDQ module into regions, each on one device, each with the reason."""

from __future__ import annotations

from firmwright.partition.regions import Partition, Region

__all__ = ["Partition", "Region"]
