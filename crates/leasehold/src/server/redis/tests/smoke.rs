use super::*;

#[tokio::test]
async fn a_lock_goes_from_hand_to_hand() {
    let server = TestServer::start().await;
    let keys = keys(&server, "smoke");
    let (mut a, mut b) = (Client::of(&server).await, Client::of(&server).await);
    b.listen().await;
    let (first, token) = a.hold(&keys).await;
    let (second, _) = b.wait(&keys).await;
    assert!(matches!(a.release(&keys, first).await.body, Passed::Released { broken: None }));
    let grant = b.granted().await;
    assert_eq!((grant.lock.as_str(), grant.owner), (keys.name(), second));
    assert!(grant.token > token);
    assert!(matches!(b.claim(&keys, second, false).await, Mine::Yes { token, .. } if token == grant.token));
    assert!(matches!(b.renew(&keys, second, LEASE).await, Ok(Mine::Yes { .. })));
    assert!(b.server.look(&keys, WITHIN).await.unwrap().holder.is_some());
    b.release(&keys, second).await;
    assert!(matches!(b.renew(&keys, second, LEASE).await, Ok(Mine::No(Found::Absent))));
    b.server.close(WITHIN).await;
    assert!(b.take(&keys, second, Mode::Try).await.is_err());
}
