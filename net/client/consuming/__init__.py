"""The parts of a consumer: positions, offsets that are looked up, fetches, and what they bring."""
