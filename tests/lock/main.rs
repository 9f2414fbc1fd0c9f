//! One lock on a real server: who gets it, for how long, who may end it, and what others see of it.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod conformance_many;
#[cfg(test)]
mod exclusion;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod odd_values;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tokens;
