//! Everything at once: waits that are cancelled at random moments, while pushes are killed.

use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::Server;
use leasehold_tests::client;
use leasehold_tests::eye::Eye;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::{SOON, tasks_are};

/// A sequence that is the same each time (an LCG); the interleaving is not.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn must_3_3_a_storm_of_cancelled_waits_leaves_nothing() {
    let server = Server::own().await;
    let mut eye = Eye::on(&server).await;
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..3 {
        clients.push(client(&server).await);
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut users = JoinSet::new();
    for user in 0..24_usize {
        let client = clients[user % 3].clone();
        users.spawn(async move {
            let mut dice = Dice(user as u64);
            let mut served = 0;
            for _ in 0..150 {
                let lock = client.lock(["a", "b"][user % 2]).unwrap();
                let patience = Duration::from_micros(dice.below(30_000));
                let waits = async {
                    match dice.below(4) {
                        0 => lock.try_acquire().await.unwrap().acquired(),
                        1 => lock.acquire_within(SOON).await.unwrap().acquired(),
                        2 => lock.wait_until_free().await.map(|()| None).unwrap(),
                        _ => Some(lock.acquire().await.unwrap()),
                    }
                };
                let Ok(Some(guard)) = tokio::time::timeout(patience, waits).await else { continue };
                served += 1;
                assert!(guard.is_held());
                match dice.below(3) {
                    0 => drop(guard),
                    1 => drop(tokio::time::timeout(Duration::from_micros(300), guard.release()).await),
                    _ => assert_eq!(guard.release().await.unwrap(), leasehold::Outcome::Released),
                }
            }
            served
        });
    }
    let killer = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            eye.admin.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        }
    };
    let (served, ()) = tokio::join!(users.join_all(), killer);
    println!("served: {} of 3,600", served.iter().sum::<usize>());
    assert!(served.iter().sum::<usize>() > 100, "{served:?}");
    eye.nothing_left(SOON).await;
    // The push connections' own.
    tasks_are(tasks + 3 * 8).await;
    for client in clients {
        client.close_within(SOON).await;
    }
    tasks_are(0).await;
    assert_eq!(eye.channels().await, Vec::<String>::new());
}
