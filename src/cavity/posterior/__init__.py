"""From draws of partitions to answers: estimate, uncertainty, diagnostics, files."""

from cavity.posterior.estimate import Partition
from cavity.posterior.losses import Loss, expected_loss, partition_distance
from cavity.posterior.posterior import Posterior

__all__ = ["Loss", "Partition", "Posterior", "expected_loss", "partition_distance"]
