//! Tokens in the environment of a process.

use crate::{MalformedToken, Token};

impl Token {
    /// The variable in which `leasehold run` hands its token to the command.
    pub const ENVIRONMENT: &'static str = "LOCK_FENCE_TOKEN";

    /// The token that this process was started with, if any.
    ///
    /// ```
    /// use leasehold_fencing::Token;
    ///
    /// assert_eq!(Token::from_environment(), Ok(None), "this test holds no lock");
    /// ```
    ///
    /// # Errors
    ///
    /// When there is one and it is malformed: going on without a token would go on unfenced.
    pub fn from_environment() -> Result<Option<Self>, MalformedToken> {
        let Some(text) = std::env::var_os(Self::ENVIRONMENT) else { return Ok(None) };
        match text.to_str() {
            Some(text) => text.parse().map(Some),
            None => Err(MalformedToken::NotText),
        }
    }
}
