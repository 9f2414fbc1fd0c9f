//! Objects in memory, behind a store that loses replies and has S3's `ETag`s.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures_core::stream::BoxStream;
use leasehold_fencing::{FenceError, FencedObject, FencedStore, ObjectFence, Token, conformance, content_of};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, Extensions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::Mutex;

use crate::support::tokens::token;

/// What happens to the next put.
#[derive(Debug, Default)]
struct Faults {
    /// It is done, and the reply is lost.
    lose_reply: AtomicBool,
    /// It is done twice, as by the store's client itself: the second meets the first.
    repeat: AtomicBool,
    /// It is not done, and the reply says nothing.
    lose_put: AtomicBool,
    puts: AtomicU32,
}

/// `InMemory` numbers its versions; S3's `ETag` is a digest of the body, and so is this one's.
#[derive(Debug, Default)]
struct Unreliable {
    inner: InMemory,
    faults: Faults,
    step: Mutex<()>,
}

impl fmt::Display for Unreliable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unreliable")
    }
}

fn digest(body: &[u8]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("\"{:x}\"", hasher.finish())
}

fn race(path: &Path) -> Error {
    Error::Precondition { path: path.to_string(), source: "changed".into() }
}

fn lost() -> Error {
    Error::Generic { store: "Unreliable", source: "the reply is lost".into() }
}

impl Unreliable {
    async fn tag(&self, path: &Path) -> Option<String> {
        let body = self.inner.get(path).await.ok()?.bytes().await.ok()?;
        Some(digest(&body))
    }
}

#[async_trait::async_trait]
impl ObjectStore for Unreliable {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        tokio::task::yield_now().await;
        let _one = self.step.lock().await;
        self.faults.puts.fetch_add(1, Ordering::SeqCst);
        if self.faults.lose_put.swap(false, Ordering::SeqCst) {
            return Err(lost());
        }
        let now = self.tag(path).await;
        match &options.mode {
            PutMode::Overwrite => {}
            PutMode::Create if now.is_none() => {}
            PutMode::Update(version) if now.is_some() && version.e_tag == now => {}
            PutMode::Create => {
                return Err(Error::AlreadyExists { path: path.to_string(), source: "there".into() });
            }
            PutMode::Update(_) => return Err(race(path)),
        }
        self.inner.put(path, payload).await?;
        if self.faults.lose_reply.swap(false, Ordering::SeqCst) {
            return Err(lost());
        }
        if self.faults.repeat.swap(false, Ordering::SeqCst) {
            return Err(race(path));
        }
        Ok(PutResult { e_tag: self.tag(path).await, version: None, extensions: Extensions::default() })
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        tokio::task::yield_now().await;
        let _one = self.step.lock().await;
        let mut got = self.inner.get_opts(path, options).await?;
        got.meta.e_tag = self.tag(path).await;
        Ok(got)
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unreachable!()
    }

    async fn get_ranges(&self, _: &Path, _: &[Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        unreachable!()
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        unreachable!()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unreachable!()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!()
    }
}

struct Shelf(ObjectFence);

impl FencedStore for Shelf {
    type Error = Error;
    type Claim = Mutex<FencedObject>;

    async fn claim(&self, token: &Token) -> Result<Self::Claim, FenceError<Error>> {
        let path = Path::from(token.resource());
        Ok(Mutex::new(self.0.claim(token, &path).await?))
    }

    async fn read(&self, claim: &Self::Claim) -> Result<Option<Vec<u8>>, FenceError<Error>> {
        // Another claim of the same token may have written: read through a new one.
        let token = claim.lock().await.token().clone();
        let fresh = self.0.claim(&token, &Path::from(token.resource())).await?;
        Ok(fresh.content().map(|bytes| bytes.to_vec()))
    }

    async fn write(&self, claim: &Self::Claim, value: &[u8]) -> Result<(), FenceError<Error>> {
        claim.lock().await.put(value.to_vec()).await
    }
}

fn store() -> (Arc<Unreliable>, ObjectFence) {
    let store = Arc::new(Unreliable::default());
    (Arc::clone(&store), ObjectFence::new(store, "reports"))
}

#[tokio::test]
async fn objects_conform() {
    conformance(&Shelf(ObjectFence::new(Arc::new(InMemory::new()), "run")), "run").await.unwrap();
    conformance(&Shelf(ObjectFence::new(Arc::new(Unreliable::default()), "run")), "run").await.unwrap();
}

#[tokio::test]
async fn a_claim_changes_the_version_even_where_it_is_a_digest_of_the_body() {
    let (_, fence) = store();
    let path = Path::from("today");
    let mut old = fence.claim(&token("reports", 7, 1), &path).await.unwrap();
    assert_eq!(old.content(), None);
    old.put("first").await.unwrap();
    old.put("second").await.unwrap();
    old.put("second").await.unwrap();
    let mut new = fence.claim(&token("reports", 8, 2), &path).await.unwrap();
    assert_eq!(new.content().unwrap().as_ref(), b"second");
    let late = old.put("second").await;
    assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
    new.put("third").await.unwrap();
    let late = old.put("late").await;
    assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
    let twin = fence.claim(&token("reports", 8, 3), &path).await;
    assert!(matches!(twin, Err(FenceError::Duplicate { .. })), "{twin:?}");
    let other = fence.claim(&token("reports/other", 99, 3), &path).await;
    assert!(matches!(other, Err(FenceError::WrongResource { .. })), "{other:?}");
}

#[tokio::test]
async fn a_lost_reply_of_ones_own_put_is_no_rival() {
    let (store, fence) = store();
    let path = Path::from("today");
    store.faults.repeat.store(true, Ordering::SeqCst);
    let mut object = fence.claim(&token("reports", 7, 1), &path).await.unwrap();
    for fault in [&store.faults.repeat, &store.faults.lose_reply] {
        fault.store(true, Ordering::SeqCst);
        let before = store.faults.puts.load(Ordering::SeqCst);
        object.put("value").await.unwrap();
        assert_eq!(store.faults.puts.load(Ordering::SeqCst), before + 1, "it was there: not put again");
        assert_eq!(object.content().unwrap().as_ref(), b"value");
    }
    // Not done, and nobody says so: unknown, and the next put works.
    store.faults.lose_put.store(true, Ordering::SeqCst);
    assert!(matches!(object.put("other").await, Err(FenceError::Store(_))));
    assert_eq!(object.content().unwrap().as_ref(), b"value");
    object.put("other").await.unwrap();
    // The rival is told apart from the own put.
    store.faults.lose_reply.store(true, Ordering::SeqCst);
    let rival = fence.claim(&token("reports", 8, 2), &path).await;
    assert!(matches!(rival, Err(FenceError::Store(_))), "the claim's reply was lost: {rival:?}");
    let late = object.put("late").await;
    assert!(matches!(late, Err(FenceError::Stale { .. })), "{late:?}");
}

#[tokio::test]
async fn a_foreign_object_is_taken_as_it_is_and_a_foreign_write_voids_the_claim() {
    let (store, fence) = store();
    let path = Path::from("today");
    store.put(&path, "plain".into()).await.unwrap();
    let mut object = fence.claim(&token("reports", 7, 1), &path).await.unwrap();
    assert_eq!(object.content().unwrap().as_ref(), b"plain");
    object.put("mine").await.unwrap();
    let body = store.get(&path).await.unwrap().bytes().await.unwrap();
    assert_eq!(content_of(&body).unwrap().as_ref(), b"mine");
    store.put(&path, "past the fence".into()).await.unwrap();
    assert!(matches!(object.put("again").await, Err(FenceError::NoClaim { .. })));
    store.delete(&path).await.unwrap();
    assert!(matches!(object.put("again").await, Err(FenceError::NoClaim { .. })));
}

#[tokio::test]
async fn zombies_before_each_step_lose_nothing() {
    for pause in 0..3 {
        let (_, fence) = store();
        let path = Path::from("count");
        let successor = async || {
            let mut object = fence.claim(&token("reports", 8, 2), &path).await.unwrap();
            let next = object.content().map_or(0, |count| count[0]) + 1;
            object.put(vec![next]).await.unwrap();
        };
        let mut accepted = 1;
        if pause == 0 {
            successor().await;
        }
        if let Ok(mut object) = fence.claim(&token("reports", 7, 1), &path).await {
            let next = object.content().map_or(0, |count| count[0]) + 1;
            if pause == 1 {
                successor().await;
            }
            accepted += u8::from(object.put(vec![next]).await.is_ok());
            if pause == 2 {
                successor().await;
            }
            assert!(object.put(vec![99]).await.is_err());
        }
        let last = fence.claim(&token("reports", 9, 3), &path).await.unwrap();
        assert_eq!(last.content().unwrap().as_ref(), [accepted], "paused before step {pause}");
    }
}
