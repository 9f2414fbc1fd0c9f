//! The header.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{MalformedToken, Token};

/// `Fence-Token: orders/42@1796102523062959:6f1c…`. The name is this library's own; nothing is
/// standardised.
pub const FENCE_TOKEN: HeaderName = HeaderName::from_static("fence-token");

/// Why a request carries no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There is no such header.
    #[error("there is no Fence-Token header")]
    Missing,
    /// There is more than one: which of them counts, a proxy and a service may see differently.
    #[error("there is more than one Fence-Token header")]
    Several,
    /// It is not a token.
    #[error(transparent)]
    Malformed(#[from] MalformedToken),
}

/// The token that a request carries.
///
/// # Errors
///
/// When there is none, more than one, or a malformed one.
pub fn token_of(headers: &HeaderMap) -> Result<Token, HeaderError> {
    let mut values = headers.get_all(FENCE_TOKEN).iter();
    let value = values.next().ok_or(HeaderError::Missing)?;
    if values.next().is_some() {
        return Err(HeaderError::Several);
    }
    let text = value.to_str().map_err(|_| MalformedToken::NotText)?;
    Ok(text.parse::<Token>()?)
}

/// Hands the header on, as it is, to a request that is made on behalf of the one that carried it. A
/// service in the middle that forgets this unfences everything behind it.
///
/// ```
/// use leasehold_fencing::http::{FENCE_TOKEN, forward};
///
/// let mut incoming = http::HeaderMap::new();
/// incoming.insert(FENCE_TOKEN, http::HeaderValue::from_static("a@7:00112233445566778899aabbccddeeff"));
/// let mut outgoing = http::HeaderMap::new();
/// forward(&incoming, &mut outgoing);
/// assert_eq!(outgoing.get(FENCE_TOKEN), incoming.get(FENCE_TOKEN));
/// ```
pub fn forward(from: &HeaderMap, to: &mut HeaderMap) {
    to.remove(FENCE_TOKEN);
    for value in from.get_all(FENCE_TOKEN) {
        to.append(FENCE_TOKEN, value.clone());
    }
}

/// The text of a token is visible ASCII, so it always is a header's value.
pub(super) fn value_of(token: &Token) -> Option<HeaderValue> {
    HeaderValue::try_from(token.to_string()).ok()
}
