"""Many processes of one store in one event loop: on a simulated clock, with faults that a seed decides."""
