//! How a client reaches its server: as whom, by which way, and what happens when it cannot.

#[cfg(test)]
mod come_back;
#[cfg(test)]
mod denied;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod login;
#[cfg(test)]
mod no_answer;
#[cfg(test)]
mod support;
