//! Names: which are accepted, and which keys belong to them.

use std::fmt;
use std::sync::Arc;

/// The longest key, in bytes, prefix included. Redis takes 512 MiB; a name that long is a mistake,
/// and it travels in every push.
pub(crate) const MAX_KEY_BYTES: usize = 512;

/// Suffixes that belong to this library: a name that is some other lock's side key is refused. The
/// list is longer than what is in use, so that a later kind breaks no name in use by then.
const RESERVED: [&str; 8] =
    [":queue", ":fence", ":waiters", ":facts", ":value", ":permits", ":count", ":members"];

/// The keys of one lock, all in one cluster slot. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Keys(Arc<Names>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Names {
    name: Arc<str>,
    /// What side keys begin with: the name itself where it has a hash tag, else the name in braces.
    stem: Box<str>,
}

/// Why a name was refused. Its text names the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadName {
    #[error("the name is empty")]
    Empty,
    #[error("the name and its prefix are {0} bytes; at most {MAX_KEY_BYTES} are allowed")]
    TooLong(usize),
    #[error("braces are unbalanced or empty, so the side keys would land in another cluster slot")]
    Braces,
    #[error("the name is wholly a hash tag, so its side keys would be those of the name inside the braces")]
    OnlyTag,
    #[error("the name is a side key of another lock: `{0}` after a hash tag is reserved")]
    Reserved(&'static str),
}

impl Keys {
    /// Checks `prefix` + `name` and derives the side keys. Sends nothing.
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Self, BadName> {
        if name.is_empty() {
            return Err(BadName::Empty);
        }
        let key = format!("{prefix}{name}");
        if key.len() > MAX_KEY_BYTES {
            return Err(BadName::TooLong(key.len()));
        }
        let stem = match hash_tag(&key) {
            Some(tag) if tag.len() + 2 == key.len() => return Err(BadName::OnlyTag),
            Some(_) => {
                if let Some(suffix) = RESERVED.into_iter().find(|suffix| key.ends_with(suffix)) {
                    return Err(BadName::Reserved(suffix));
                }
                key.clone()
            }
            None if key.contains(['{', '}']) => return Err(BadName::Braces),
            None => format!("{{{key}}}"),
        };
        Ok(Self(Arc::new(Names { name: key.into(), stem: stem.into() })))
    }

    /// The bare key: the holder's hash (`N` in docs/protocol.md).
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// The same, shared: every token of the lock carries it.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    /// The fence counter (`F`).
    pub(crate) fn fence(&self) -> String {
        format!("{}:fence", self.0.stem)
    }

    /// The queue of waiters (`Q`).
    pub(crate) fn queue(&self) -> String {
        format!("{}:queue", self.0.stem)
    }

    /// The facts of the waiters (`W`).
    pub(crate) fn waiters(&self) -> String {
        format!("{}:waiters", self.0.stem)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.name())
    }
}

/// What a cluster hashes instead of the whole key: the text between the first `{` and the first `}`
/// behind it, if there is any (Redis cluster specification, *Hash tags*).
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_keys_share_the_slot() {
        let plain = Keys::new("app:", "lock:a").unwrap();
        assert_eq!(plain.name(), "app:lock:a");
        assert_eq!(plain.queue(), "{app:lock:a}:queue");
        let tagged = Keys::new("", "order:{42}").unwrap();
        assert_eq!(tagged.fence(), "order:{42}:fence");
        for name in ["a", "a{b}c", "{b}c", "ключ", "nul\0", "a}b{c}", "order:{42}:x:waiters2"] {
            let keys = Keys::new("", name).unwrap();
            let tag = hash_tag(name).unwrap_or(name);
            for side in [keys.queue(), keys.fence(), keys.waiters()] {
                assert_eq!(hash_tag(&side), Some(tag), "{name}");
            }
        }
    }

    #[test]
    fn names_that_would_break_are_refused() {
        assert_eq!(Keys::new("app:", ""), Err(BadName::Empty));
        assert_eq!(Keys::new("app:", &"x".repeat(509)), Err(BadName::TooLong(513)));
        for name in ["foo{bar", "foo}bar", "{}x", "x{}", "}{", "{"] {
            assert_eq!(Keys::new("", name), Err(BadName::Braces), "{name}");
        }
        assert_eq!(Keys::new("", "{lock:a}"), Err(BadName::OnlyTag));
        assert_eq!(Keys::new("", "{lock:a}:queue"), Err(BadName::Reserved(":queue")));
        assert_eq!(Keys::new("", "order:{42}:fence"), Err(BadName::Reserved(":fence")));
        assert!(Keys::new("", "jobs:queue").is_ok(), "no hash tag: nobody's side key");
    }
}
