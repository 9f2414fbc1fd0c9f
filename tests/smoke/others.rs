//! What others see, and what others left.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Holder, Remaining, Seen};
use leasehold_testkit::Server;
use leasehold_tests::{client, options, take};

#[tokio::test]
async fn inspection_and_busy_say_who_since_when_and_what_for() {
    let server = Server::start().await;
    let one = options(&server).label("web-3").connect().await.unwrap();
    let guard = take(&one.lock("a").unwrap()).await;
    let lock = client(&server).await.lock("a").unwrap();
    let seen = lock.inspect().await.unwrap();
    let hold = seen.held().unwrap();
    let holder = hold.holder();
    assert_eq!((holder.owner(), holder.label()), (guard.owner_id().as_str(), Some("web-3")));
    assert_eq!((holder.process(), hold.waiters()), (Some(std::process::id()), 0));
    assert!(holder.held_for().is_some() && holder.since().is_some() && hold.renewed_ago().is_some());
    assert!(matches!(hold.remaining(), Remaining::For(span) if span > Duration::from_secs(15)));
    let leasehold::Attempt::Busy(busy) = lock.try_acquire().await.unwrap() else { panic!("two holders") };
    assert_eq!(busy.holder().and_then(Holder::client).unwrap().owner(), guard.owner_id());
    assert!(busy.to_string().contains("web-3"), "{busy}");
}

#[tokio::test]
async fn another_librarys_record_is_respected_and_data_is_not_waited_for() {
    let server = Server::start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let theirs = client.lock("theirs").unwrap();
    admin.call(&["HSET", theirs.name(), "285475da-9152-4c83-822a-67ee2f116a79:52", "1"]).await;
    admin.call(&["PEXPIRE", theirs.name(), "1500"]).await;
    assert!(theirs.try_acquire().await.unwrap().is_busy());
    assert!(matches!(theirs.inspect().await.unwrap(), Seen::Foreign(seen) if seen.kind() == "hash"));
    let guard =
        tokio::time::timeout(Duration::from_secs(8), theirs.acquire()).await.expect("its lease ended");
    drop(guard.unwrap());
    let data = client.lock("data").unwrap();
    admin.call(&["SET", data.name(), "somebody's"]).await;
    assert_eq!(data.acquire().await.unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(admin.call(&["GET", data.name()]).await.text(), "somebody's");
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let server = Server::start().await;
    let client = Client::builder(&server.url()).prefix("elsewhere:").connect().await.unwrap();
    let error = client.lock("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("~elsewhere:* ~{elsewhere:* &elsewhere:push:*"), "{error}");
}
