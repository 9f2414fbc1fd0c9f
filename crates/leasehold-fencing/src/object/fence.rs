//! Claims and conditional puts.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectStore, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion,
};

use super::envelope::{Envelope, MAX_NAME_BYTES};
use crate::scope::Scope;
use crate::{FenceError, Mark, Token, Verdict};

/// Each lost race means that somebody else's put went through; so many in a row are no bad luck.
const MAX_RACES: u32 = 64;

/// A fence around single objects. Each carries its own mark, in a line before its content, and changes
/// by conditional puts only.
///
/// ```
/// use std::sync::Arc;
/// use leasehold_fencing::{FenceError, ObjectFence, Token};
/// use object_store::{memory::InMemory, path::Path};
///
/// # async fn publish(token: &Token) -> Result<(), FenceError<object_store::Error>> {
/// let fence = ObjectFence::new(Arc::new(InMemory::new()), "reports");
/// let mut report = fence.claim(token, &Path::from("reports/today")).await?; // a stale holder stops here
/// let before = report.content();
/// report.put("all is well").await?;
/// # Ok(())
/// # }
/// ```
///
/// The store must have conditional puts with an `ETag` or a version: S3, Google Cloud Storage, Azure and
/// memory have them; the local file system has not, and answers an error. Readers that do not use this
/// crate skip the first line, or ask [`content_of`](super::content_of). An object that was not
/// fenced before is taken as it is.
///
/// # A zombie
///
/// A put that was on its way when the next holder claimed is refused when it arrives, however late:
/// the claim has changed the object's version. Nobody ever waits.
///
/// # Lost replies
///
/// `object_store` tries again by itself, and then meets its own first put as a rival. Each put has an
/// id, and after a lost race the object is read again: an own put is no rival. If the successor's
/// claim came between, a put whose reply was lost is reported as stale though it was accepted before;
/// the successor has seen it.
#[derive(Clone)]
pub struct ObjectFence {
    store: Arc<dyn ObjectStore>,
    scope: Scope,
}

impl ObjectFence {
    /// A fence for `scope` and what is below it.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, scope: impl Into<Arc<str>>) -> Self {
        Self { store, scope: Scope::new(scope) }
    }

    /// Raises the object's mark, and reads it. An object that is not there is made, with a mark and
    /// without content.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale) and [`Duplicate`](FenceError::Duplicate);
    /// [`WrongResource`](FenceError::WrongResource) also where another resource's token is in the
    /// object.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the claim.
    pub async fn claim(&self, token: &Token, path: &Path) -> Result<FencedObject, FenceError<Error>> {
        self.scope.check(token)?;
        let length = token.resource().len();
        if length > MAX_NAME_BYTES {
            return Err(FenceError::NameTooLong { length, limit: MAX_NAME_BYTES });
        }
        let mut object = FencedObject {
            store: Arc::clone(&self.store),
            path: path.clone(),
            token: token.clone(),
            // Random enough to tell two claims of one token apart, without a generator as a dependency.
            claim: RandomState::new().hash_one(token),
            puts: 0,
            version: None,
            content: None,
        };
        for _ in 0..MAX_RACES {
            let seen = object.look().await.map_err(FenceError::Store)?;
            let verdict = object.compare(seen.mark.as_ref())?;
            object.adopt(seen);
            if verdict == Verdict::Same {
                return Ok(object);
            }
            match object.try_put(object.content.clone()).await {
                Ok(()) => return Ok(object),
                Err(error) if is_race(&error) => {}
                Err(error) => return Err(FenceError::Store(error)),
            }
        }
        Err(races(path))
    }
}

/// An object that was claimed.
pub struct FencedObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
    token: Token,
    claim: u64,
    puts: u64,
    /// The version that the next put replaces; `None`: the object is not there.
    version: Option<UpdateVersion>,
    content: Option<Bytes>,
}

/// The object as it is now: nothing of it, not there; no mark, not fenced.
#[derive(Default)]
struct Seen {
    version: Option<UpdateVersion>,
    mark: Option<Token>,
    write: Option<String>,
    content: Option<Bytes>,
}

impl FencedObject {
    /// The token that was claimed with.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The content as the claim found it, or as it was put since; `None` if there never was one.
    #[must_use]
    pub fn content(&self) -> Option<&Bytes> {
        self.content.as_ref()
    }

    /// Replaces the content.
    ///
    /// # Errors
    ///
    /// [`Stale`](FenceError::Stale) and [`Duplicate`](FenceError::Duplicate);
    /// [`NoClaim`](FenceError::NoClaim) when the object is gone or somebody wrote past the fence: then
    /// what was read is void. After [`Store`](FenceError::Store) it is unknown whether it was put;
    /// putting again is safe.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the put done or not.
    pub async fn put(&mut self, content: impl Into<Bytes>) -> Result<(), FenceError<Error>> {
        let content = content.into();
        for _ in 0..MAX_RACES {
            let Err(error) = self.try_put(Some(content.clone())).await else { return Ok(()) };
            // A lost reply and a lost race look alike from here; the object knows.
            let Ok(seen) = self.look().await else { return Err(FenceError::Store(error)) };
            match self.compare(seen.mark.as_ref())? {
                Verdict::Same => {}
                _ => return Err(FenceError::NoClaim { ours: self.token.clone() }),
            }
            let arrived = seen.write.as_deref() == Some(&*self.id());
            let raced = is_race(&error);
            // Another put under the same token is no rival: this one replaces it.
            if arrived || raced {
                self.adopt(seen);
            }
            match (arrived, raced) {
                (true, _) => return Ok(()),
                (false, true) => {}
                (false, false) => return Err(FenceError::Store(error)),
            }
        }
        Err(races(&self.path))
    }

    fn compare(&self, stored: Option<&Token>) -> Result<Verdict, FenceError<Error>> {
        if let Some(other) = stored.filter(|stored| stored.resource() != self.token.resource()) {
            let scope = other.resource_arc();
            return Err(FenceError::WrongResource { ours: self.token.clone(), scope });
        }
        FenceError::unless_accepted(&self.token, stored.map(Mark::from))
    }

    /// Takes over a version as the one to replace. Only after the verdict: a zombie that adopts what
    /// its successor put has the key to replace it.
    fn adopt(&mut self, seen: Seen) {
        self.version = seen.version;
        self.content = seen.content;
    }

    async fn look(&self) -> Result<Seen, Error> {
        let got = match self.store.get_opts(&self.path, GetOptions::default()).await {
            Ok(got) => got,
            Err(Error::NotFound { .. }) => return Ok(Seen::default()),
            Err(error) => return Err(error),
        };
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let body = got.bytes().await?;
        Ok(match Envelope::read(&body) {
            Some(Envelope { token, write, content }) => {
                Seen { version: Some(version), mark: Some(token), write: Some(write), content }
            }
            None => Seen { version: Some(version), content: Some(body), ..Seen::default() },
        })
    }

    /// One conditional put. The condition is the version that was last seen.
    async fn try_put(&mut self, content: Option<Bytes>) -> Result<(), Error> {
        self.puts += 1;
        let envelope = Envelope { token: self.token.clone(), write: self.id(), content };
        let content = envelope.content.clone();
        let payload: PutPayload =
            [envelope.line(), content.clone().unwrap_or_default()].into_iter().collect();
        let mode = self.version.clone().map_or(PutMode::Create, PutMode::Update);
        let options = PutOptions { mode, ..PutOptions::default() };
        let PutResult { e_tag, version, .. } = self.store.put_opts(&self.path, payload, options).await?;
        self.version = Some(UpdateVersion { e_tag, version });
        self.content = content;
        Ok(())
    }

    /// The id of the last put.
    fn id(&self) -> String {
        format!("{:016x}-{}", self.claim, self.puts)
    }
}

fn is_race(error: &Error) -> bool {
    matches!(error, Error::Precondition { .. } | Error::AlreadyExists { .. })
}

fn races(path: &Path) -> FenceError<Error> {
    FenceError::Store(Error::Precondition { path: path.to_string(), source: "too many lost races".into() })
}

impl fmt::Debug for ObjectFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectFence").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl fmt::Debug for FencedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedObject")
            .field("path", &self.path)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
