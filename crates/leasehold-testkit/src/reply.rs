//! What a server answers (RESP2).

use std::fmt;

/// One reply. The helpers panic with the reply in the message when it has another type: in a test, that is
/// the failure to show.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(String),
    /// `-ERR …`
    Error(String),
    /// `:1`
    Int(i64),
    /// `$3…`
    Bulk(Vec<u8>),
    /// `*2…`
    Array(Vec<Reply>),
    /// `$-1` or `*-1`
    Nil,
}

impl Reply {
    /// The integer; also one that came as text, as from `GET`.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            Self::Bulk(bytes) => match std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()) {
                Some(n) => n,
                None => panic!("not an integer: {self:?}"),
            },
            _ => panic!("not an integer: {self:?}"),
        }
    }

    /// The text of a status or of a bulk string.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Simple(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => panic!("not a text: {self:?}"),
        }
    }

    /// The text, or `None` where the server has nothing.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn maybe_text(&self) -> Option<String> {
        if self.is_nil() { None } else { Some(self.text()) }
    }

    /// The elements; none where the server has no such array.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn array(&self) -> Vec<Self> {
        match self {
            Self::Array(items) => items.clone(),
            Self::Nil => Vec::new(),
            _ => panic!("not an array: {self:?}"),
        }
    }

    /// The elements as texts.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn texts(&self) -> Vec<String> {
        self.array().iter().map(Self::text).collect()
    }

    /// Pairs of field and value, as from `HGETALL`.
    ///
    /// # Panics
    /// When it is another type of reply.
    #[must_use]
    #[track_caller]
    pub fn pairs(&self) -> Vec<(String, String)> {
        let texts = self.texts();
        texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
    }

    /// Whether the server has nothing under that name.
    #[must_use]
    pub const fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// The error's text, if it is one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(text) = self { Some(text) } else { None }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "{text}"),
            Self::Error(text) => write!(f, "(error) {text}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Bulk(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Array(items) => f.debug_list().entries(items).finish(),
            Self::Nil => write!(f, "(nil)"),
        }
    }
}
