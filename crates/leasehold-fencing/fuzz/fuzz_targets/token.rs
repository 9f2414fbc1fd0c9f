//! `cargo +nightly fuzz run token`: whatever is parsed is canonical, and nothing panics.
#![no_main]

use leasehold_fencing::{Token, content_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(token) = text.parse::<Token>() {
            assert_eq!(token.to_string(), text);
        }
    }
    let body = bytes::Bytes::copy_from_slice(data);
    let _ = content_of(&body);
});
