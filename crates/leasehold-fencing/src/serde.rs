//! Tokens in serde formats: their text, so that a JSON reader with doubles for numbers loses nothing.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Token;

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TokenText)
    }
}

struct TokenText;

impl Visitor<'_> for TokenText {
    type Value = Token;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fencing token as text, resource@sequence:holder")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Token, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_digit() {
        let token = Token::new("orders/42", Token::MAX_SEQUENCE, [0xab; 16]).unwrap();
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(json, format!("\"orders/42@9007199254740991:{}\"", "ab".repeat(16)));
        assert_eq!(serde_json::from_str::<Token>(&json).unwrap(), token);
        let wrong = serde_json::from_str::<Token>("\"orders/42@7\"").unwrap_err().to_string();
        assert!(wrong.contains("between sequence and holder"), "{wrong}");
        assert!(serde_json::from_str::<Token>("7").is_err());
    }
}
