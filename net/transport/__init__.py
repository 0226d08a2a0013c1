"""How bytes get to other processes: the `Network` seam, and TCP behind it."""
