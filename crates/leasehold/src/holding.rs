//! A hold, as the client side of a store sees it.

use std::time::Duration;

use leasehold_fencing::{Holding, Token};

use crate::{Guard, Held};

impl Holding for Held {
    fn token(&self) -> Token {
        Held::token(self)
    }

    fn remaining(&self) -> Duration {
        Held::remaining(self)
    }
}

impl Holding for Guard {
    fn token(&self) -> Token {
        Held::token(self)
    }

    fn remaining(&self) -> Duration {
        Held::remaining(self)
    }
}
