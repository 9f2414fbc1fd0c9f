//! A hold, as the client side of a store sees it.

use std::time::Duration;

use crate::Token;

/// Something that is held for a while and has a token: a lock's guard.
///
/// A holder whose time is over should not send a write at all. That is no safety, which is the store's
/// business, but good manners: it spares the store the refusal, and the log the question.
pub trait Holding {
    /// The token of the hold. It may change while the hold lives, so ask for each write.
    fn token(&self) -> Token;

    /// How long it surely lasts. Zero: it is over, and stays over.
    fn remaining(&self) -> Duration;
}

impl<H: Holding + ?Sized> Holding for &H {
    fn token(&self) -> Token {
        (**self).token()
    }

    fn remaining(&self) -> Duration {
        (**self).remaining()
    }
}

impl<H: Holding + ?Sized> Holding for std::sync::Arc<H> {
    fn token(&self) -> Token {
        (**self).token()
    }

    fn remaining(&self) -> Duration {
        (**self).remaining()
    }
}
