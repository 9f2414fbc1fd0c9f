//! Costs, beside the floor: each figure is measured with the same commands sent bare, in turn, in one
//! run. Read the ratios; the machine's own speed drops out of them.
