use super::*;

#[tokio::test]
async fn one_bad_name_does_not_fail_its_neighbours() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let mut client = Client::of(&server).await;
    let mut other = Client::of(&server).await;
    let (held, string, taken, absent, hash) =
        (keys(&server, "a"), keys(&server, "b"), keys(&server, "c"), keys(&server, "d"), keys(&server, "e"));
    let (owner, token) = client.hold(&held).await;
    ask(&mut admin, &["SET", string.name(), "x"]).await;
    ask(&mut admin, &["HSET", hash.name(), "x", "1", "owner", "onobody"]).await;
    other.hold(&taken).await;
    let lease = Duration::from_secs(60);
    let batch: Vec<Renew> = [&string, &held, &taken, &absent, &hash, &held]
        .into_iter()
        .map(|keys| Renew { keys: keys.clone(), owner, lease })
        .collect();
    let answers: Vec<Mine> =
        client.server.renew(&batch, WITHIN).await.unwrap().into_iter().map(Result::unwrap).collect();
    let yes = Mine::Yes { token, remaining: lease };
    assert_eq!(answers[0], Mine::No(Found::Foreign));
    assert_eq!(answers[1], yes);
    assert_eq!(answers[2], Mine::No(Found::Other));
    assert_eq!(answers[3], Mine::No(Found::Absent));
    assert_eq!(answers[4], Mine::No(Found::Foreign));
    assert!(matches!(answers[5], Mine::Yes { remaining, .. } if remaining <= lease));
    assert!(client.server.renew(&[], WITHIN).await.unwrap().is_empty());
    assert_eq!(ask(&mut admin, &["PTTL", string.name()]).await.int(), -1, "a foreign key is not touched");
}

#[tokio::test]
async fn it_never_shortens_and_puts_a_missing_end_back() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "end");
    let mut client = Client::of(&server).await;
    let (owner, _) = client.hold(&keys).await;
    let answer = client.renew(&keys, owner, Duration::from_secs(1)).await;
    assert!(matches!(answer, Ok(Mine::Yes { remaining, .. }) if remaining > Duration::from_secs(20)));
    ask(&mut admin, &["PERSIST", keys.name()]).await;
    assert!(matches!(client.renew(&keys, owner, LEASE).await, Ok(Mine::Yes { remaining: LEASE, .. })));
    ask(&mut admin, &["PERSIST", keys.name()]).await;
    assert!(matches!(client.claim(&keys, owner, false).await, Mine::Yes { remaining: LEASE, .. }));
    assert_all_expire(&server).await;
}

#[tokio::test]
async fn a_fixed_hold_ends_at_its_grant_plus_lease() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    let keys = keys(&server, "fixed");
    let mut client = Client::of(&server).await;
    let (owner, token) = client.hold(&keys).await;
    let since = token - 10_000_000;
    ask(&mut admin, &["HSET", keys.name(), "f", &format!("t{token} s{since} l30000")]).await;
    ask(&mut admin, &["PEXPIRE", keys.name(), "5000"]).await;
    let Mine::Yes { remaining, .. } = client.claim(&keys, owner, true).await else { panic!() };
    assert!(remaining <= Duration::from_secs(20) && remaining > Duration::from_secs(15), "{remaining:?}");
    let who = ask(&mut admin, &["HGET", keys.name(), "who"]).await.text();
    assert_eq!(who, "wclaimed");
    // Long over: what is left is not shortened, and the key not deleted.
    ask(&mut admin, &["HSET", keys.name(), "f", &format!("t{token} s1 l30000")]).await;
    assert!(
        matches!(client.claim(&keys, owner, true).await, Mine::Yes { remaining, .. } if remaining > Duration::from_secs(9))
    );
    // Nor is it where somebody took its end away.
    ask(&mut admin, &["PERSIST", keys.name()]).await;
    let shortest = Duration::from_millis(1);
    assert!(
        matches!(client.claim(&keys, owner, true).await, Mine::Yes { remaining, .. } if remaining == shortest)
    );
    client.release(&keys, owner).await;
    let (owner, _) = client.hold(&keys).await;
    // No claim for others, and none that acquires.
    let stranger = client.owner();
    assert_eq!(client.claim(&keys, stranger, false).await, Mine::No(Found::Other));
    client.release(&keys, owner).await;
    assert_eq!(client.claim(&keys, owner, false).await, Mine::No(Found::Absent));
    ask(&mut admin, &["SET", keys.name(), "x"]).await;
    assert_eq!(client.claim(&keys, owner, false).await, Mine::No(Found::Foreign));
}
