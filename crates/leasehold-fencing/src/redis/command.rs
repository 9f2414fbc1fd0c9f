//! A command that runs behind a fence.

/// One command, word by word. Keys are named as such, so that a cluster and an ACL see them.
///
/// ```
/// use leasehold_fencing::FencedCommand;
///
/// let get = FencedCommand::new("GET").key("stock:{42}");
/// let set = FencedCommand::new("SET").key("stock:{42}").arg("9");
/// # let _ = (get, set);
/// ```
///
/// About 7,900 words are the most that Lua can hand on.
#[derive(Debug, Clone)]
#[must_use = "a command runs when it is given to a claim"]
pub struct FencedCommand {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) words: Vec<Vec<u8>>,
}

impl FencedCommand {
    /// A command by its name. What blocks, and what scripts may not do, is refused by the server.
    pub fn new(name: &str) -> Self {
        Self { keys: Vec::new(), words: vec![name.into()] }
    }

    /// The next word, a key. In a cluster it must be in the mark's slot.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.keys.push(key.as_ref().to_vec());
        self.arg(key)
    }

    /// The next word, no key.
    pub fn arg(mut self, word: impl AsRef<[u8]>) -> Self {
        self.words.push(word.as_ref().to_vec());
        self
    }
}
