//! A user limited to a prefix, and what a missing permission says.

use std::time::Duration;

use leasehold::{Client, Error, ErrorKind, Evicted, Guard, Lock, LostReason, Outcome, Phase};
use leasehold_testkit::{Admin, RULE, Server, eventually, keys};
use leasehold_tests::{client, options, take};

use crate::support::{SOON, ms, until_waiting};

/// Makes a user of that rule, and gives a URL to log in as it.
async fn user(server: &Server, admin: &mut Admin, name: &str, rule: &str) -> String {
    let rule = rule.replace("<prefix>", server.prefix());
    let mut words = vec!["ACL", "SETUSER", name, "reset", "on", ">pw"];
    words.extend(rule.split_whitespace());
    let reply = admin.call(&words).await;
    assert_eq!(reply.error(), None, "{rule}");
    format!("redis://{name}:pw@{}", server.address())
}

/// Everything that a lock can be asked for, once; with two clients of this user.
async fn whole_life(url: &str, prefix: &str, admin: &mut Admin) -> Result<(), Error> {
    let one = Client::builder(url).prefix(prefix).label("one").connect().await?;
    let two = Client::builder(url).prefix(prefix).label("two").connect().await?;
    let name = format!("life-{}", url.len());
    let (lock, theirs) = (one.lock(&name)?.renewed(ms(1_200))?, two.lock(&name)?.renewed(ms(1_200))?);
    let guard = match lock.try_acquire().await?.acquired() {
        Some(guard) => guard,
        None => lock.acquire().await?,
    };
    assert!(theirs.try_acquire().await?.is_busy());
    assert!(lock.inspect().await?.held().is_some());
    guard.extend_to(ms(1_500)).await?;
    let waiter = waiting(&lock, &theirs).await;
    assert_eq!(guard.release().await?, Outcome::Released);
    let next = served(waiter).await?;
    next.confirm().await?;
    let seen = lock.inspect().await?;
    assert_eq!(lock.force_release(&seen).await?, Evicted::Freed);
    drop(next);
    // A hold that is deleted, behind a grant that nobody claimed.
    let guard = lock.acquire().await?;
    let waiter = waiting(&lock, &theirs).await;
    let side = format!("{{{}}}:waiters", lock.name());
    let nobody = "00000000-0000-4000-8000-000000000000:1 1";
    assert_eq!(admin.call(&["HSET", &side, "g", nobody]).await.error(), None);
    assert_eq!(admin.call(&["DEL", lock.name()]).await.error(), None);
    assert_eq!(guard.release().await?, Outcome::Lost(LostReason::Gone));
    drop(served(waiter).await?);
    // Others' values at a name.
    for make in [&["SET", "x"][..], &["HSET", "x", "f"]] {
        let foreign = one.lock(&format!("{name}-{}", make[0]))?;
        let mut words = vec![make[0], foreign.name()];
        words.extend(&make[2..]);
        words.push("value");
        assert_eq!(admin.call(&words).await.error(), None);
        let seen = foreign.inspect().await?;
        assert_eq!(foreign.force_release(&seen).await?, Evicted::Freed);
    }
    one.close_within(SOON).await;
    two.close_within(SOON).await;
    Ok(())
}

type Waiter = tokio::task::JoinHandle<Result<Guard, Error>>;

/// A waiter that stands in the queue, or was refused.
async fn waiting(lock: &Lock, theirs: &Lock) -> Waiter {
    let theirs = theirs.clone();
    let waiter = tokio::spawn(async move { theirs.acquire().await });
    let mut stands = false;
    while !stands && !waiter.is_finished() {
        stands = match lock.inspect().await {
            Ok(seen) => seen.held().is_some_and(|hold| hold.waiters() == 1),
            Err(_) => break,
        };
    }
    waiter
}

async fn served(waiter: Waiter) -> Result<Guard, Error> {
    tokio::time::timeout(SOON, waiter).await.expect("served").unwrap()
}

#[tokio::test]
async fn must_10_the_rule_that_an_error_names_is_enough_for_everything() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let url = user(&server, &mut admin, "nobody", "~* &* -@all").await;
    let error = whole_life(&url, server.prefix(), &mut admin).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let text = error.to_string();
    let (_, rule) = text.split_once("the user needs: ").expect("it names the rule");
    let (rule, _) = rule.split_once(", after ").unwrap_or((rule, ""));
    let documented = RULE.replace("<prefix>", server.prefix());
    let words = |rule: &str| rule.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(rule), words(&documented), "the suite runs under the very line that the library names");

    let url = user(&server, &mut admin, "granted", rule).await;
    whole_life(&url, server.prefix(), &mut admin).await.expect("whoever follows the message gets through");
    assert_eq!(denials(&mut admin, "granted").await, 0, "the server refused it nothing on the way");
}

/// Refusals that the server has logged for this user.
async fn denials(admin: &mut Admin, user: &str) -> usize {
    let log = admin.call(&["ACL", "LOG", "100"]).await.array();
    log.iter().filter(|entry| format!("{entry:?}").contains(&format!("\"username\", {user:?}"))).count()
}

#[tokio::test]
async fn must_10_each_permission_alone_is_named_or_done_without() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    // Documented as done without. PUBLISH: nobody is told, and the next look serves.
    let optional = ["+client|setname", "+client|id", "+info", "+pubsub|numsub", "+select", "+publish"];
    for (n, word) in RULE.split_whitespace().enumerate() {
        let rule = RULE.split_whitespace().filter(|other| *other != word).collect::<Vec<_>>().join(" ");
        let url = user(&server, &mut admin, &format!("user{}", "x".repeat(n)), &rule).await;
        let lived = tokio::time::timeout(SOON * 2, whole_life(&url, server.prefix(), &mut admin)).await;
        match lived.unwrap_or_else(|_| panic!("without {word} it hangs")) {
            Ok(()) => assert!(optional.contains(&word), "{word} is not needed: it should not be in the rule"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Denied, "without {word}: {error}");
                assert!(!optional.contains(&word), "without {word}: {error}");
                let named = word.replace("<prefix>", server.prefix());
                assert!(error.to_string().contains(&named), "{named} is not named in: {error}");
                assert!(error.phase().is_some() && error.address().is_some(), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn must_10_another_prefix_is_denied_and_named() {
    let server = Server::own().await;
    let client = Client::builder(&server.url()).prefix("other:").connect().await.unwrap();
    let lock = client.lock("a").unwrap();
    for error in [
        lock.try_acquire().await.unwrap_err(),
        lock.acquire().await.unwrap_err(),
        lock.acquire_within(SOON).await.unwrap_err(),
        lock.inspect().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("~other:* ~{other:* &other:push:*"), "{error}");
        assert!(!error.may_have_changed_server(), "refused before the script began: {error}");
        assert_eq!(error.lock(), Some("other:a"));
    }
}

#[tokio::test]
async fn must_10_a_denied_channel_is_told_to_the_waiter_and_leaves_no_entry() {
    let server = Server::builder().acl(&RULE.replace("&<prefix>push:*", "&elsewhere:*")).own().start().await;
    let mut admin = server.admin().await;
    let client = client(&server).await;
    let guard = take(&client.lock("a").unwrap()).await;
    let lock = client.lock("a").unwrap();
    let error = tokio::time::timeout(SOON, lock.acquire()).await.expect("told").unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Denied, Some(Phase::Subscribe)), "{error}");
    assert!(error.to_string().contains(&format!("&{}push:*", server.prefix())), "{error}");
    // What needs no channel works.
    assert!(guard.confirm().await.is_ok());
    assert_eq!(guard.release().await.unwrap(), Outcome::Released);
    assert_eq!(lock.acquire().await.unwrap().release().await.unwrap(), Outcome::Released);
    client.close_within(SOON).await;
    let left = keys(&mut admin).await;
    assert!(left.iter().all(|key| key.ends_with(":fence")), "{left:?}");
}

#[tokio::test]
async fn a_permission_that_is_taken_away_during_a_hold_ends_a_release_with_an_error() {
    let server = Server::own().await;
    let mut admin = server.admin().await;
    let url = user(&server, &mut admin, "fallen", RULE).await;
    let client = Client::builder(&url).prefix(server.prefix()).connect().await.unwrap();
    let lock = client.lock("a").unwrap().renewed(ms(1_500)).unwrap();
    let guard = take(&lock).await;
    let states = guard.states();
    assert_eq!(admin.call(&["ACL", "SETUSER", "fallen", "-evalsha"]).await.error(), None);
    eventually("the hold is at risk", SOON, async || states.borrow().is_at_risk()).await;
    assert_eq!(guard.confirm().await.unwrap_err().kind(), ErrorKind::Denied);
    let error = guard.release().await.unwrap_err();
    assert_eq!((error.kind(), error.phase()), (ErrorKind::Denied, Some(Phase::Release)));
    assert_eq!(admin.call(&["ACL", "SETUSER", "fallen", "+evalsha"]).await.error(), None);
    let again = tokio::time::timeout(SOON, lock.acquire()).await.expect("its lease ends it").unwrap();
    assert!(again.is_held());
}

#[tokio::test]
async fn must_10_all_keys_and_channels_begin_with_the_prefix_and_prefixes_do_not_meet() {
    let rule = RULE.replace("&<prefix>push:*", "&<prefix>*"); // push channels of both prefixes
    let server = Server::builder().acl(&rule).own().start().await;
    let mut admin = server.admin().await;
    let (one, two) = (client(&server).await, options(&server).prefix("t:b:").connect().await.unwrap());
    let guard = take(&one.lock("a").unwrap()).await;
    let other = take(&two.lock("a").unwrap()).await;
    assert_eq!((guard.lock(), other.lock()), ("t:a", "t:b:a"), "two locks");
    let waiters = [one.lock("a").unwrap(), two.lock("a").unwrap()].map(|lock| {
        tokio::spawn(async move { lock.acquire_within(Duration::from_secs(30)).await.map(drop) })
    });
    until_waiting(&one.lock("a").unwrap(), 1).await;
    until_waiting(&two.lock("a").unwrap(), 1).await;
    for key in keys(&mut admin).await {
        assert!(key.starts_with("t:") || key.starts_with("{t:"), "{key}");
    }
    let channels = admin.call(&["PUBSUB", "CHANNELS"]).await.texts();
    assert_eq!(channels.len(), 2);
    assert!(channels.iter().any(|channel| channel.starts_with("t:b:push:")), "{channels:?}");
    assert!(channels.iter().all(|channel| channel.starts_with("t:")), "{channels:?}");
    for waiter in waiters {
        waiter.abort();
    }
}
