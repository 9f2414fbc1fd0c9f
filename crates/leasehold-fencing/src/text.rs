//! The text form: `orders/42@1796102523062959:6f1c…`.
//!
//! Invariant: `Display` is injective, and `FromStr` accepts exactly what `Display` writes. A lenient
//! parser was rejected: two texts of one token would be two keys for every cache, log search and
//! idempotency table behind it.

use std::fmt;
use std::str::FromStr;

use crate::{MalformedToken, Token};

/// Bytes that stand for themselves. `@` ends the resource and `%` begins an escape; what else is left
/// out means something to a shell, to a header parser or to a list of cookies.
const fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/' | b':')
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_resource(self, f)?;
        write!(f, "@{}:", self.sequence())?;
        write_holder(self, f)
    }
}

fn write_resource(token: &Token, f: &mut impl fmt::Write) -> fmt::Result {
    token.resource().bytes().try_for_each(|byte| {
        if is_literal(byte) { f.write_char(char::from(byte)) } else { write!(f, "%{byte:02X}") }
    })
}

fn write_holder(token: &Token, f: &mut impl fmt::Write) -> fmt::Result {
    token.holder().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The part before the `@`.
#[cfg(feature = "redis")]
pub(crate) fn encoded_resource(token: &Token) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_resource(token, &mut text);
    text
}

/// The part behind the `:`.
#[cfg(feature = "redis")]
pub(crate) fn encoded_holder(token: &Token) -> String {
    let mut text = String::new();
    let _ = write_holder(token, &mut text);
    text
}

impl FromStr for Token {
    type Err = MalformedToken;

    fn from_str(text: &str) -> Result<Self, MalformedToken> {
        let (resource, rest) = text.split_once('@').ok_or(MalformedToken::MissingSequence)?;
        let (sequence, holder) = rest.split_once(':').ok_or(MalformedToken::MissingHolder)?;
        Self::new(parse_resource(resource)?, parse_sequence(sequence)?, parse_holder(holder)?)
    }
}

fn parse_resource(text: &str) -> Result<String, MalformedToken> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((position, byte)) = bytes.next() {
        if byte == b'%' {
            let high = bytes.next().and_then(|(_, digit)| hex_digit(digit, b'A'));
            let low = bytes.next().and_then(|(_, digit)| hex_digit(digit, b'A'));
            match (high, low) {
                (Some(high), Some(low)) if !is_literal(high << 4 | low) => {
                    decoded.push(high << 4 | low);
                }
                _ => return Err(MalformedToken::InvalidEscape { position }),
            }
        } else if is_literal(byte) {
            decoded.push(byte);
        } else {
            return Err(MalformedToken::UnencodedByte { position });
        }
    }
    String::from_utf8(decoded).map_err(|_| MalformedToken::ResourceNotUtf8)
}

/// Digits only: `u64::from_str` would take `+7` and `007` as well.
fn parse_sequence(text: &str) -> Result<u64, MalformedToken> {
    let canonical = text == "0" || !text.starts_with('0');
    if !canonical || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MalformedToken::InvalidSequence);
    }
    text.parse().map_err(|_| MalformedToken::InvalidSequence)
}

pub(crate) fn parse_holder(text: &str) -> Result<[u8; 16], MalformedToken> {
    let mut holder = [0; 16];
    if text.len() != 2 * holder.len() {
        return Err(MalformedToken::InvalidHolder);
    }
    for (byte, digits) in holder.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let mut value = 0;
        for &digit in digits {
            value = value << 4 | hex_digit(digit, b'a').ok_or(MalformedToken::InvalidHolder)?;
        }
        *byte = value;
    }
    Ok(holder)
}

/// `ten` is the letter for 10: escapes are written in upper case (RFC 3986), holders in lower case.
fn hex_digit(digit: u8, ten: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        _ if (ten..ten + 6).contains(&digit) => Some(digit - ten + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOLDER: &str = "00112233445566778899aabbccddeeff";

    fn parse(text: &str) -> Result<Token, MalformedToken> {
        text.parse()
    }

    #[test]
    fn what_a_header_could_not_carry_is_encoded() {
        let token = Token::new("order:{42} @%\nключ", 0, [0xff; 16]).unwrap();
        let text = token.to_string();
        assert_eq!(
            text,
            "order:%7B42%7D%20%40%25%0A%D0%BA%D0%BB%D1%8E%D1%87@0:ffffffffffffffffffffffffffffffff"
        );
        assert_eq!(parse(&text), Ok(token));
    }

    #[test]
    fn each_kind_of_malformed_text_has_its_reason() {
        use MalformedToken as E;
        let too_large = Token::MAX_SEQUENCE + 1;
        let cases = [
            (String::new(), E::MissingSequence),
            ("orders/42".into(), E::MissingSequence),
            (format!("orders/42:7:{HOLDER}"), E::MissingSequence),
            ("orders/42@7".into(), E::MissingHolder),
            (format!("@7:{HOLDER}"), E::EmptyResource),
            (format!("a@:{HOLDER}"), E::InvalidSequence),
            (format!("a@+7:{HOLDER}"), E::InvalidSequence),
            (format!("a@-7:{HOLDER}"), E::InvalidSequence),
            (format!("a@07:{HOLDER}"), E::InvalidSequence),
            (format!("a@7.0:{HOLDER}"), E::InvalidSequence),
            (format!("a@1e3:{HOLDER}"), E::InvalidSequence),
            (format!("a@ 7:{HOLDER}"), E::InvalidSequence),
            (format!("a@٧:{HOLDER}"), E::InvalidSequence),
            (format!("a@18446744073709551616:{HOLDER}"), E::InvalidSequence),
            (format!("a@b@7:{HOLDER}"), E::InvalidSequence),
            (format!("a@{too_large}:{HOLDER}"), E::SequenceTooLarge(too_large)),
            (format!("a@9223372036854775807:{HOLDER}"), E::SequenceTooLarge(i64::MAX as u64)),
            ("a@7:".into(), E::InvalidHolder),
            (format!("a@7:{}", HOLDER.to_uppercase()), E::InvalidHolder),
            (format!("a@7:{HOLDER}0"), E::InvalidHolder),
            (format!("a@7:{HOLDER} "), E::InvalidHolder),
            (format!("a@7:{}", &HOLDER[1..]), E::InvalidHolder),
            (format!("a@7:{}", "é".repeat(16)), E::InvalidHolder),
            (format!("a b@7:{HOLDER}"), E::UnencodedByte { position: 1 }),
            (format!("é@7:{HOLDER}"), E::UnencodedByte { position: 0 }),
            (format!("ab%4@7:{HOLDER}"), E::InvalidEscape { position: 2 }),
            (format!("%zz@7:{HOLDER}"), E::InvalidEscape { position: 0 }),
            (format!("%c3%a9@7:{HOLDER}"), E::InvalidEscape { position: 0 }),
            (format!("%61@7:{HOLDER}"), E::InvalidEscape { position: 0 }),
            (format!("%FF@7:{HOLDER}"), E::ResourceNotUtf8),
        ];
        for (text, why) in cases {
            assert_eq!(parse(&text), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_token_round_trips_as_header_safe_ascii(
            resource in "\\PC+|[\\x00-\\x7f]+|.+",
            sequence in prop_oneof![0..=Token::MAX_SEQUENCE, Just(Token::MAX_SEQUENCE), 0..10_u64],
            holder: [u8; 16],
        ) {
            let token = Token::new(resource, sequence, holder).unwrap();
            let text = token.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
            prop_assert_eq!(parse(&text), Ok(token));
        }

        #[test]
        fn no_text_panics_and_what_is_accepted_is_canonical(
            text in "\\PC*|[a%4@:0-9f]{0,48}|[a-c%]{1,4}@[0-9]{1,20}:[0-9a-f]{31,33}",
        ) {
            if let Ok(token) = parse(&text) {
                prop_assert_eq!(token.to_string(), text);
            }
        }

        #[test]
        fn one_changed_byte_is_another_token_or_none(
            resource in "[a-z%@ ]{1,8}", sequence in 0..=Token::MAX_SEQUENCE, holder: [u8; 16],
            at: prop::sample::Index, byte in 0x20_u8..0x7f,
        ) {
            let token = Token::new(resource, sequence, holder).unwrap();
            let mut text = token.to_string().into_bytes();
            let at = at.index(text.len());
            prop_assume!(text[at] != byte);
            text[at] = byte;
            prop_assert_ne!(parse(&String::from_utf8(text).unwrap()), Ok(token));
        }
    }
}
