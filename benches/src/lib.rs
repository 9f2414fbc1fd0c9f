//! Costs, beside the floor.
