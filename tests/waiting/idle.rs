//! Waiting costs nothing but a check now and then.

use std::time::{Duration, Instant};

use leasehold_testkit::Server;
use leasehold_tests::eye::Eye;
use leasehold_tests::{client, take};

use crate::{LONG, line_up, within};

/// Three clients with three waiters each, behind a hold that is renewed: one and a half checks per
/// lease and *client* at the most, and not a command more.
#[tokio::test]
async fn idle_waiting_sends_nothing_but_its_checks() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let lease = Duration::from_secs(1);
    let holder = client(&server).await;
    let guard = take(&holder.lock("a").unwrap().renewed(lease).unwrap()).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server).await);
    }
    let mut waiters = Vec::new();
    for n in 0..9 {
        let lock = clients[n % 3].lock("a").unwrap().renewed(lease).unwrap();
        waiters.push(line_up(&mut eye, "a", &lock, n + 1).await);
    }
    let (begun, before) = (Instant::now(), eye.stats().await);
    tokio::time::sleep(lease * 6).await;
    let (ran, leases) = (eye.stats().await - before, begun.elapsed().as_secs_f64() / lease.as_secs_f64());
    assert!(guard.is_held());
    // Every check, and nothing else here, asks how many subscribers its client has.
    let checks = ran.of("pubsub|numsub");
    let renewals = ran.scripts() - checks;
    println!("{leases:.1} leases, 3 clients with 3 waiters each: {checks} checks, {renewals} renewals");
    let most = |each: f64| (each * leases).ceil() + 1.0;
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let (checks, renewals) = (checks as f64, renewals as f64);
    assert!(checks <= 3.0 * most(1.5), "{checks} checks in {leases} leases of three clients");
    assert!(checks >= 3.0 * (leases / 3.0).floor(), "{checks} checks in {leases} leases: they stopped");
    assert!(renewals <= most(3.0), "{renewals} renewals in {leases} leases");
    // Besides: what the scripts call, our own looks, and the probe of a push connection.
    let known = [
        "evalsha",
        "eval",
        "time",
        "pubsub|numsub",
        "pttl",
        "hmget",
        "hexists",
        "zscore",
        "zcard",
        "zrank",
        "hget",
        "hset",
        "hlen",
        "pexpire",
        "exists",
        "type",
        "info",
        "ping",
    ];
    let strange: Vec<_> = ran.iter().filter(|(command, _)| !known.contains(command)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert!(ran.of("ping") <= 4 * 3, "{} pings", ran.of("ping"));
    let _ = guard.release().await.unwrap();
    for waiter in waiters {
        drop(within("everybody is served", LONG, waiter).await.unwrap());
    }
}
