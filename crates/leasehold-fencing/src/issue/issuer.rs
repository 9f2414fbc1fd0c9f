//! The issuer.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::types::Value;

use super::IssueError;
use super::key::counter_key;
use crate::script::{self, Script};
use crate::{Mark, Reissue, Token, lua};

static ISSUE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("issue_one.lua").replace("--@issue", lua::ISSUE)));
static RAISE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("raise.lua").to_owned()));

/// Ten years in microseconds: more than any clock is wrong by that anybody still uses.
const MAX_RAISE: u64 = 10 * 366 * 24 * 3600 * 1_000_000;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Issues tokens from a counter on Redis or Valkey, for those who have another way than a lock to know
/// that they are alone: a leader by election elsewhere, a batch that is started once.
///
/// The counter is that of a lock with the resource's name, and the numbers are issued by the same
/// script text.
///
/// *Floored* numbering, the default, raises the counter to the server's clock in microseconds. A counter
/// that was lost (fail-over, flush, eviction, restart) then still gives larger numbers, as long as the
/// clock is not behind the last token. It may therefore expire. *Plain* numbering is 1, 2, 3 …, never
/// expires, and begins again when the counter is lost; the stores then refuse its tokens until it is
/// raised.
#[derive(Clone)]
pub struct Issuer {
    client: Client,
    timeout: Duration,
    /// `None`: plain.
    keep: Option<Duration>,
}

impl Issuer {
    /// An issuer on a connected client of a primary.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, timeout: Duration::from_secs(1), keep: Some(DAY) }
    }

    /// Plain numbering: 1, 2, 3 …, without an expiry.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.keep = None;
        self
    }

    /// How long a counter lives after its last use, in floored numbering. It must be longer than any
    /// clock can be wrong; at least a second. Default: 24 h. Without effect in plain numbering.
    #[must_use]
    pub fn keep_counters(mut self, keep: Duration) -> Self {
        self.keep = self.keep.map(|_| keep.max(Duration::from_secs(1)));
        self
    }

    /// How long a call may take. Default: 1 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Issues the next token. `holder` tells holders apart, so take a fresh one for each tenure, from a
    /// random generator or from process and counter.
    ///
    /// # Errors
    ///
    /// Each [`IssueError`] but `AbsurdMark`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave a gap in the numbers.
    pub async fn issue(&self, resource: impl Into<Arc<str>>, holder: [u8; 16]) -> Result<Token, IssueError> {
        let resource = resource.into();
        let key = counter_key(&resource)?;
        let life = self.life();
        let (keys, arguments) = ([key.as_bytes()], [life.as_bytes()]);
        let answer = ISSUE.call(&self.client, self.timeout, &keys, &arguments).await;
        let sequence = number(&answer.map_err(IssueError::server)?)?;
        Ok(Token::new(resource, sequence, holder)?)
    }

    /// Raises the counter to at least this number, never lowers it, and says where it is then: what an
    /// operator does with a store's mark after state was lost.
    ///
    /// # Errors
    ///
    /// [`AbsurdMark`](IssueError::AbsurdMark) where that would be ten years ahead of both the counter
    /// and (in floored numbering) the clock.
    pub async fn raise(&self, resource: &str, at_least: u64) -> Result<u64, IssueError> {
        let key = counter_key(resource)?;
        // The last number is never issued, so that the one before can still be counted up.
        if at_least >= Token::MAX_SEQUENCE {
            return Err(IssueError::AbsurdMark(at_least));
        }
        let arguments = [self.life(), at_least.to_string(), MAX_RAISE.to_string()];
        let arguments = [arguments[0].as_bytes(), arguments[1].as_bytes(), arguments[2].as_bytes()];
        match RAISE.call(&self.client, self.timeout, &[key.as_bytes()], &arguments).await {
            Ok(answer) => number(&answer),
            Err(error) if error.details().trim_start_matches('-').starts_with("ABSURD") => {
                Err(IssueError::AbsurdMark(at_least))
            }
            Err(error) => Err(IssueError::server(error)),
        }
    }

    /// The last number issued, if the counter is there: for looking at. It is not a token, and one above
    /// it is not the next.
    ///
    /// # Errors
    ///
    /// [`BrokenCounter`](IssueError::BrokenCounter), and the server's.
    pub async fn current(&self, resource: &str) -> Result<Option<u64>, IssueError> {
        let key = counter_key(resource)?;
        let value = script::get(&self.client, self.timeout, &key).await.map_err(IssueError::server)?;
        let Some(text) = value.as_string() else { return Ok(None) };
        text.parse().map(Some).map_err(|_| IssueError::BrokenCounter(format!("{key} is not a number")))
    }

    fn life(&self) -> String {
        self.keep.map_or(0, |keep| keep.as_millis()).to_string()
    }
}

/// For holders that know without a lock that they still are. It asks nobody.
impl Reissue for Issuer {
    type Error = IssueError;

    async fn reissue(&self, refused: &Token, past: Mark) -> Result<Token, IssueError> {
        self.raise(refused.resource(), past.sequence()).await?;
        self.issue(refused.resource(), refused.holder()).await
    }
}

/// Taken from the value by hand: fred's conversions read nil as 0 if any crate asks for it.
fn number(value: &Value) -> Result<u64, IssueError> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
    .ok_or_else(|| IssueError::Server(Error::new(ErrorKind::Parse, "the answer is no sequence")))
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer")
            .field("timeout", &self.timeout)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}
