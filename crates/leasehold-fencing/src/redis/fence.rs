//! Claims, and commands under them.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::types::Value;

use super::FencedCommand;
use crate::scope::Scope;
use crate::script::Script;
use crate::text::{encoded_holder, encoded_resource, parse_holder};
use crate::{FenceError, Mark, Token};

static FENCED: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("fenced.lua").to_owned()));

/// A fence around data in Redis or Valkey: compare and command are one script, so there is no moment
/// between them.
///
/// The mark is a key of yours in the data's cluster slot. Lock, counter, mark and data under one hash
/// tag are lost together, if they are lost; a mark elsewhere outlives them.
///
/// ```
/// use leasehold_fencing::{FenceError, FencedCommand, RedisFence, Token};
///
/// # async fn sell(client: fred::clients::Client, token: &Token) -> Result<(), FenceError<fred::error::Error>> {
/// let fence = RedisFence::new(client, "orders");
/// // Claim and read in one script: a stale holder stops here.
/// let read = FencedCommand::new("GET").key("stock:{42}");
/// let (claim, left) = fence.claim_and_call(token, "mark:{42}", read).await?;
/// let left = left.as_i64().unwrap_or(0);
/// claim.call(FencedCommand::new("SET").key("stock:{42}").arg((left - 1).to_string())).await?;
/// # Ok(())
/// # }
/// ```
///
/// # A zombie
///
/// It cannot be *inside* anything: a script ends before the next begins. Its next call is refused.
/// Bound a call with [`timeout`](Self::timeout); after a lost reply it is unknown whether the command
/// ran, and nothing here sends it twice.
#[derive(Clone)]
pub struct RedisFence {
    client: Client,
    scope: Scope,
    timeout: Duration,
    keep: Option<Duration>,
}

impl RedisFence {
    /// A fence for `scope` and what is below it, on a connected client. Use a client of a primary:
    /// replicas lag, and marks with them.
    #[must_use]
    pub fn new(client: Client, scope: impl Into<Arc<str>>) -> Self {
        Self { client, scope: Scope::new(scope), timeout: Duration::from_secs(1), keep: None }
    }

    /// How long a call may take. Default: 1 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Lets a mark expire this long after its last use. It must be longer than any holder can be
    /// stopped and wake up again. Default: marks stay.
    #[must_use]
    pub fn keep_marks(mut self, keep: Duration) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Raises the mark.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale), [`Duplicate`](FenceError::Duplicate), and
    /// [`WrongResource`](FenceError::WrongResource), also where the mark is another resource's.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the claim.
    pub async fn claim(
        &self,
        token: &Token,
        mark: impl AsRef<[u8]>,
    ) -> Result<RedisClaim, FenceError<Error>> {
        let claim = RedisClaim { fence: self.clone(), token: token.clone(), mark: mark.as_ref().into() };
        claim.run("claim", None).await?;
        Ok(claim)
    }

    /// Raises the mark and runs one command, usually a read, in the same script.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). If the command itself fails, the claim stays.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the claim, and the command done or not.
    pub async fn claim_and_call(
        &self,
        token: &Token,
        mark: impl AsRef<[u8]>,
        command: FencedCommand,
    ) -> Result<(RedisClaim, Value), FenceError<Error>> {
        let claim = RedisClaim { fence: self.clone(), token: token.clone(), mark: mark.as_ref().into() };
        let reply = claim.run("claim", Some(command)).await?;
        Ok((claim, reply))
    }
}

/// The proof that a mark was raised. Cheap to clone.
#[derive(Clone)]
pub struct RedisClaim {
    fence: RedisFence,
    token: Token,
    mark: Arc<[u8]>,
}

impl RedisClaim {
    /// The token that was claimed with.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Runs one command, if the mark is this claim's.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale) and [`Duplicate`](FenceError::Duplicate);
    /// [`NoClaim`](FenceError::NoClaim) when the server has lost the mark: then what was read is void.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the command done or not.
    pub async fn call(&self, command: FencedCommand) -> Result<Value, FenceError<Error>> {
        self.run("hold", Some(command)).await
    }

    async fn run(&self, mode: &str, command: Option<FencedCommand>) -> Result<Value, FenceError<Error>> {
        self.fence.scope.check(&self.token)?;
        let sequence = self.token.sequence().to_string();
        let holder = encoded_holder(&self.token);
        let resource = encoded_resource(&self.token);
        let keep = self.fence.keep.map_or(0, |keep| keep.as_millis().max(1)).to_string();
        let command = command.unwrap_or(FencedCommand { keys: Vec::new(), words: Vec::new() });
        let mut keys: Vec<&[u8]> = vec![&self.mark];
        keys.extend(command.keys.iter().map(Vec::as_slice));
        let mut arguments: Vec<&[u8]> =
            [&sequence, &holder, &resource, mode, &keep].map(str::as_bytes).into();
        arguments.extend(command.words.iter().map(Vec::as_slice));
        let answer = FENCED.call(&self.fence.client, self.fence.timeout, &keys, &arguments);
        self.read(answer.await.map_err(FenceError::Store)?)
    }

    fn read(&self, answer: Value) -> Result<Value, FenceError<Error>> {
        let mut fields = answer.into_array().into_iter();
        let tag = fields.next().and_then(Value::into_string).unwrap_or_default();
        match tag.as_str() {
            "ok" => Ok(fields.next().unwrap_or(Value::Null)),
            "refused" => {
                let mut text = || fields.next().and_then(Value::into_string);
                let stored = text().and_then(|sequence| sequence.parse().ok());
                let holder = text().and_then(|holder| parse_holder(&holder).ok());
                let Some((sequence, holder)) = stored.zip(holder) else { return Err(broken()) };
                FenceError::unless_claimed(&self.token, Some(Mark::new(sequence, holder)))?;
                Err(broken())
            }
            "forgotten" => Err(FenceError::NoClaim { ours: self.token.clone() }),
            "other" => {
                let scope = String::from_utf8_lossy(&self.mark).as_ref().into();
                Err(FenceError::WrongResource { ours: self.token.clone(), scope })
            }
            _ => Err(broken()),
        }
    }
}

fn broken() -> FenceError<Error> {
    FenceError::Store(Error::new(ErrorKind::Parse, "the mark is not one of this library's"))
}

impl fmt::Debug for RedisFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFence")
            .field("scope", &self.scope)
            .field("timeout", &self.timeout)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = String::from_utf8_lossy(&self.mark);
        f.debug_struct("RedisClaim").field("token", &self.token).field("mark", &mark).finish_non_exhaustive()
    }
}
