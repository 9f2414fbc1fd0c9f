//! The token: which resource, which number, whose.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::{MalformedToken, Mark, Verdict};

/// A fencing token: the right to write to one resource, until a newer one is seen there.
///
/// A lock issues one for each hold; re-entry keeps it. Its text form, for headers, logs and the
/// environment of a child process, is `resource@sequence:holder` with the resource percent-encoded and
/// the holder in hexadecimal; it is visible ASCII whatever the resource contains, and one token has
/// exactly one text.
///
/// ```
/// use leasehold_fencing::Token;
///
/// # fn main() -> Result<(), leasehold_fencing::MalformedToken> {
/// let token = Token::new("orders/42", 1_796_102_523_062_959, [0x6f; 16])?;
/// let text = token.to_string();
/// assert_eq!(text, "orders/42@1796102523062959:6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f");
/// assert_eq!(text.parse::<Token>()?, token);
/// # Ok(())
/// # }
/// ```
///
/// # Order
///
/// Tokens of different resources have no order, and neither have two tokens of one resource with the
/// same sequence and different holders: a number given out twice proves that the issuer lost state, and
/// it would be wrong to call either of them the later one. `partial_cmp` answers `None` for both.
///
/// ```
/// # use leasehold_fencing::Token;
/// # fn main() -> Result<(), leasehold_fencing::MalformedToken> {
/// let (a, b) = ([0xaa; 16], [0xbb; 16]);
/// assert!(Token::new("stock", 2, b)? > Token::new("stock", 1, a)?);
/// assert_eq!(Token::new("stock", 2, a)?.partial_cmp(&Token::new("till", 1, a)?), None);
/// assert_eq!(Token::new("stock", 2, a)?.partial_cmp(&Token::new("stock", 2, b)?), None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    resource: Arc<str>,
    sequence: u64,
    holder: [u8; 16],
}

impl Token {
    /// The largest sequence, 2^53-1: the last whole number that Lua, JSON and JavaScript keep exactly.
    /// The server's clock in microseconds reaches it in the year 2255.
    pub const MAX_SEQUENCE: u64 = (1 << 53) - 1;

    /// Puts a token together.
    ///
    /// Only an issuer makes a new one; a store or a service that checks tokens gets them from outside,
    /// as text or as parts.
    ///
    /// # Errors
    ///
    /// When the resource is empty or the sequence is above [`Token::MAX_SEQUENCE`].
    pub fn new(
        resource: impl Into<Arc<str>>,
        sequence: u64,
        holder: [u8; 16],
    ) -> Result<Self, MalformedToken> {
        let resource = resource.into();
        if resource.is_empty() {
            return Err(MalformedToken::EmptyResource);
        }
        if sequence > Self::MAX_SEQUENCE {
            return Err(MalformedToken::SequenceTooLarge(sequence));
        }
        Ok(Self { resource, sequence, holder })
    }

    /// What the token is for: the name that the holder and every store agree on.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The name, shared: a map of marks need not copy it.
    pub(crate) fn resource_arc(&self) -> Arc<str> {
        Arc::clone(&self.resource)
    }

    /// The number: of two tokens for one resource, the larger was issued later.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Who it was issued to. It tells two holders apart that were given one number by an issuer that
    /// lost its memory.
    #[must_use]
    pub fn holder(&self) -> [u8; 16] {
        self.holder
    }

    /// What a store keeps once it has accepted this token.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark::new(self.sequence, self.holder)
    }

    /// Compares with what the store has for this token's resource; `None` if it has nothing yet.
    ///
    /// This is the whole rule, and every store in this crate follows it:
    ///
    /// | sequence | holder | verdict | the store must |
    /// |---|---|---|---|
    /// | above the mark's, or no mark | any | [`Newer`](Verdict::Newer) | record the token, then accept |
    /// | equal | equal | [`Same`](Verdict::Same) | accept |
    /// | equal | different | [`Duplicate`](Verdict::Duplicate) | refuse, and tell somebody |
    /// | below | any | [`Stale`](Verdict::Stale) | refuse |
    #[must_use = "a verdict that nobody looks at protects nothing"]
    pub fn check(&self, stored: Option<Mark>) -> Verdict {
        let Some(stored) = stored else { return Verdict::Newer };
        match self.sequence.cmp(&stored.sequence()) {
            Ordering::Greater => Verdict::Newer,
            Ordering::Less => Verdict::Stale,
            Ordering::Equal if self.holder == stored.holder() => Verdict::Same,
            Ordering::Equal => Verdict::Duplicate,
        }
    }
}

impl PartialOrd for Token {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self.resource != other.resource {
            return None;
        }
        match self.sequence.cmp(&other.sequence) {
            Ordering::Equal if self.holder != other.holder => None,
            order => Some(order),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(resource: &str, sequence: u64, holder: u8) -> Token {
        Token::new(resource, sequence, [holder; 16]).unwrap()
    }

    #[test]
    fn parts_out_of_range_are_refused() {
        assert_eq!(Token::new("", 1, [0; 16]), Err(MalformedToken::EmptyResource));
        let last = Token::MAX_SEQUENCE;
        assert_eq!(token("a", last, 1).sequence(), last);
        for above in [last + 1, i64::MAX.unsigned_abs(), u64::MAX] {
            assert_eq!(Token::new("a", above, [0; 16]), Err(MalformedToken::SequenceTooLarge(above)));
        }
    }

    #[test]
    fn the_rule_of_the_store() {
        let two = token("a", 2, 7);
        assert_eq!(two.check(None), Verdict::Newer);
        assert_eq!(two.check(Some(Mark::new(1, [7; 16]))), Verdict::Newer);
        assert_eq!(two.check(Some(Mark::new(1, [9; 16]))), Verdict::Newer);
        assert_eq!(two.check(Some(Mark::new(2, [7; 16]))), Verdict::Same);
        assert_eq!(two.check(Some(Mark::new(2, [9; 16]))), Verdict::Duplicate);
        assert_eq!(two.check(Some(Mark::new(3, [7; 16]))), Verdict::Stale);
        assert_eq!(two.check(Some(Mark::new(u64::MAX, [7; 16]))), Verdict::Stale);
    }

    #[test]
    fn order_agrees_with_equality_and_stays_within_a_resource() {
        assert!(token("a", 1, 9) < token("a", 2, 1));
        assert_eq!(token("a", 1, 1).partial_cmp(&token("a", 1, 1)), Some(Ordering::Equal));
        assert_eq!(token("a", 1, 1).partial_cmp(&token("a", 1, 2)), None);
        assert_eq!(token("a", 1, 1).partial_cmp(&token("b", 2, 1)), None);
    }
}
