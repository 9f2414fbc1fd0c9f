//! What stands in an object: one line with the mark, then the content.
//!
//! The mark is in the body, not in the object's metadata: the `ETag` of S3 is a digest of the body alone. A
//! claim that changed only metadata would leave the `ETag` as it was, and a conditional put of the older
//! holder would go through. For the same reason each put has an id of its own.

use bytes::Bytes;

use crate::Token;

const MAGIC: &[u8] = b"leasehold-fence/1 ";

/// How far the end of the line is looked for.
const MAX_LINE: usize = 4096;

/// The longest resource name: encoded it grows threefold, and the line must end within [`MAX_LINE`].
pub(super) const MAX_NAME_BYTES: usize = 1024;

/// Who put it, by which put, and what.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Envelope {
    pub(super) token: Token,
    pub(super) write: String,
    /// `None`: claimed, and never written. An object cannot be claimed without being there.
    pub(super) content: Option<Bytes>,
}

impl Envelope {
    pub(super) fn line(&self) -> Bytes {
        let state = if self.content.is_some() { "present" } else { "absent" };
        let magic = String::from_utf8_lossy(MAGIC);
        format!("{magic}{} {} {state}\n", self.token, self.write).into()
    }

    /// `None`: an object that was never fenced.
    pub(super) fn read(body: &Bytes) -> Option<Self> {
        let line = body.strip_prefix(MAGIC)?;
        let end = line.iter().take(MAX_LINE).position(|byte| *byte == b'\n')?;
        let mut words = std::str::from_utf8(&line[..end]).ok()?.split(' ');
        let token = words.next()?.parse().ok()?;
        let write = words.next()?.to_owned();
        let content = match words.next()? {
            "present" => Some(body.slice(MAGIC.len() + end + 1..)),
            "absent" => None,
            _ => return None,
        };
        words.next().is_none().then_some(Self { token, write, content })
    }
}

/// The content of a fenced object, for those who only read: everything behind the first line. `None`
/// where it was claimed and never written; an object that was never fenced is all content.
#[must_use]
pub fn content_of(body: &Bytes) -> Option<Bytes> {
    match Envelope::read(body) {
        Some(envelope) => envelope.content,
        None => Some(body.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_comes_off_again() {
        let token = Token::new("a b\n", 7, [1; 16]).unwrap();
        for content in [None, Some(Bytes::new()), Some(Bytes::from_static(b"x\ny"))] {
            let envelope = Envelope { token: token.clone(), write: "1-2".into(), content: content.clone() };
            let body: Bytes = [envelope.line(), content.clone().unwrap_or_default()].concat().into();
            assert_eq!(Envelope::read(&body), Some(envelope));
            assert_eq!(content_of(&body), content);
        }
        let foreign = [
            "",
            "plain",
            "leasehold-fence/1 ",
            "leasehold-fence/1 x y present\n",
            "leasehold-fence/1 \n",
            "leasehold-fence/1 a@7:01010101010101010101010101010101 1 perhaps\n",
            "leasehold-fence/1 a@7:01010101010101010101010101010101 1 present more\n",
        ];
        for foreign in foreign {
            let body = Bytes::from_static(foreign.as_bytes());
            assert_eq!(content_of(&body), Some(body));
        }
    }
}
