//! Why a text or a set of parts is not a token.

use crate::Token;

/// Why something is not a [`Token`].
///
/// None of the messages repeats the text itself: it comes from outside, can be of any length, and ends
/// up in logs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedToken {
    /// The resource is empty: such a token would guard nothing, or everything.
    #[error("malformed token: the resource is empty")]
    EmptyResource,
    /// The sequence is above [`Token::MAX_SEQUENCE`].
    #[error("malformed token: the sequence {0} is above 2^53-1")]
    SequenceTooLarge(u64),
    /// The text has no `@`, which ends the resource.
    #[error("malformed token: there is no `@` between resource and sequence")]
    MissingSequence,
    /// The text has no `:` behind the `@`; it ends the sequence.
    #[error("malformed token: there is no `:` between sequence and holder")]
    MissingHolder,
    /// The sequence is not a decimal number without sign or leading zeros, or does not fit 64 bits.
    #[error("malformed token: the sequence is not a plain decimal number of at most 2^53-1")]
    InvalidSequence,
    /// The holder is not exactly 32 lower-case hexadecimal digits.
    #[error("malformed token: the holder is not 32 lower-case hexadecimal digits")]
    InvalidHolder,
    /// A byte of the resource should have been percent-encoded.
    #[error("malformed token: byte {position} of the resource must be percent-encoded")]
    UnencodedByte {
        /// Where in the text, counted from 0.
        position: usize,
    },
    /// A `%` is not followed by two upper-case hexadecimal digits, or encodes a byte that stands for
    /// itself. One token has one text, so that texts can be compared.
    #[error("malformed token: the percent-encoding at byte {position} is not the canonical one")]
    InvalidEscape {
        /// Where in the text, counted from 0.
        position: usize,
    },
    /// A header's value or an environment variable that is not even text.
    #[error("malformed token: it is not text")]
    NotText,
    /// The percent-decoded resource is not UTF-8.
    #[error("malformed token: the resource is not UTF-8")]
    ResourceNotUtf8,
}

const _: () = assert!(Token::MAX_SEQUENCE == 9_007_199_254_740_991, "the messages above name it");
