//! Who logs in.

use std::fmt::Write as _;

use crate::port::fresh_word;

/// Somebody who can log in.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
}

impl User {
    pub(crate) fn fresh(name: &str) -> Self {
        Self { name: name.to_owned(), password: fresh_word() }
    }

    /// `user:password@`, with what has a meaning in a URL escaped.
    pub(crate) fn credentials(&self) -> String {
        if self.name.is_empty() && self.password.is_empty() {
            return String::new();
        }
        let escaped = |word: &str| {
            word.bytes().fold(String::new(), |mut text, byte| {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    text.push(char::from(byte));
                } else {
                    let _always = write!(text, "%{byte:02X}");
                }
                text
            })
        };
        format!("{}:{}@", escaped(&self.name), escaped(&self.password))
    }
}
