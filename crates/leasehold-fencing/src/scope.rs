//! What a fence guards.

use std::sync::Arc;

use crate::{FenceError, Token};

/// The resources that a fence takes tokens for: one name, and what is below it.
///
/// `orders` takes `orders`, `orders:42` and `orders/42`, and nothing else. Without this check a token of
/// any other lock would open the door: it has a number too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Scope(Arc<str>);

impl Scope {
    pub(crate) fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    pub(crate) fn check<E>(&self, token: &Token) -> Result<(), FenceError<E>> {
        let below = token.resource().strip_prefix(&*self.0);
        if below.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/'])) {
            return Ok(());
        }
        Err(FenceError::WrongResource { ours: token.clone(), scope: Arc::clone(&self.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_for_something_else_opens_no_door() {
        let scope = Scope::new("orders");
        let check = |resource| scope.check::<()>(&Token::new(resource, 1, [1; 16]).unwrap()).is_ok();
        for inside in ["orders", "orders:42", "orders/42", "orders:"] {
            assert!(check(inside), "{inside}");
        }
        for outside in ["order", "orders2", "orders-42", "Orders", "app:orders", "invoices:42"] {
            assert!(!check(outside), "{outside}");
        }
    }
}
