//! Schedules that no real server can be asked for.

use super::*;

/// A waiter with a ticket whose grant came too late, and which opens the push channel anew: its check
/// is under way. The channel's answer is the test's.
async fn checked_while_it_opens_the_channel(
    play: &Play,
) -> (
    JoinHandle<Result<Arc<Record>, Error>>,
    oneshot::Sender<Result<Reply<Taken>, Fault>>,
    oneshot::Sender<Result<(), Fault>>,
) {
    let task = play.waiter("a", LEASE);
    play.no().await;
    let Sent::Listen(answer) = play.next().await else { panic!("no listen") };
    answer.send(Ok(())).unwrap();
    let (owner, answer) = play.take().await;
    answer.send(Ok(in_line(5, LEASE, Subscribers::Count(0)))).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    play.grant(owner, 6, Duration::ZERO);
    let Sent::Claim(_, answer) = play.next().await else { panic!("no claim") };
    answer.send(Ok(reply(Mine::No(Found::Absent)))).unwrap();
    play.no().await;
    let Sent::Listen(opening) = play.next().await else { panic!("no listen") };
    let (checked, check) = play.take().await;
    assert_eq!(checked, owner);
    (task, check, opening)
}

/// Otherwise the later of two answers finds an owner that holds already, and passes its live hold.
#[tokio::test]
async fn one_take_of_an_owner_is_under_way_at_a_time() {
    let play = Play::new(Duration::from_secs(5));
    let (task, check, opening) = checked_while_it_opens_the_channel(&play).await;
    opening.send(Ok(())).unwrap();
    play.silence().await;
    check.send(Ok(held())).unwrap();
    let record = task.await.unwrap().unwrap();
    play.silence().await;
    assert!(record.is_open());
}

/// What the check brings is taken, whether or not the channel can be opened.
#[tokio::test]
async fn a_hold_is_taken_although_the_push_channel_stays_shut() {
    let play = Play::new(Duration::from_secs(5));
    let (task, check, opening) = checked_while_it_opens_the_channel(&play).await;
    check.send(Ok(held())).unwrap();
    opening.send(Err(fault(Why::Unavailable))).unwrap();
    let record = tokio::time::timeout(SHORT, task).await.expect("at once").unwrap().unwrap();
    assert!(record.is_open());
}

/// A `take` that is lost in a panic is not under way for ever.
#[tokio::test]
async fn a_waiter_is_checked_again_after_its_check_panicked() {
    let play = Play::new(Duration::from_secs(5));
    let (owner, task) = play.queued(5, Duration::ZERO, false).await;
    play.fake.bad.store(1, Ordering::Release);
    let (checked, check) = play.take().await;
    assert_eq!(checked, owner);
    assert_eq!(play.fake.bad.load(Ordering::Acquire), 0, "it did not panic");
    check.send(Ok(held())).unwrap();
    assert!(task.await.unwrap().unwrap().is_open());
}

/// The promise was given for all waiters of the client: the grant of one does not put off the check.
#[tokio::test]
async fn a_grant_does_not_put_off_the_check_of_the_next_waiter() {
    let play = Play::new(Duration::from_secs(5));
    let (one, _first) = play.queued(5, LEASE, false).await;
    let (two, _second) = play.queued(6, SHORT, true).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let begun = Instant::now();
    play.grant(one, 9, Duration::from_secs(4));
    let Sent::Claim(claimed, claim) = play.next().await else { panic!("no claim") };
    assert_eq!(claimed, one);
    let (checked, _check) = play.take().await;
    assert_eq!(checked, two);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(claim);
}

/// Every hold, and every one of a crowd, has its pass tried; nobody waits for all of them in turn.
#[tokio::test]
async fn close_ends_in_time_although_nothing_answers() {
    let play = Play::new(Duration::from_millis(300));
    let mut holds = Vec::new();
    for n in 0..640 {
        holds.push(play.hold(&format!("a{n}"), LEASE).await);
    }
    let begun = Instant::now();
    close(&play.core, Duration::from_millis(200)).await;
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
    for record in holds {
        assert_eq!(record.lost_reason(), Some(LostReason::Closed));
    }
    // And the tasks end too, soon after.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&play.core.shared), 1);
}

/// The one who releases is told how it went.
#[tokio::test]
async fn close_waits_for_a_release_under_way() {
    let play = Play::new(Duration::from_secs(5));
    let record = play.hold("a", LEASE).await;
    let shared = play.core.shared.clone();
    let releasing = tokio::spawn(async move { release(&shared, &record).await });
    let Sent::Pass(_, answer) = play.next().await else { panic!("no pass") };
    let core = play.core.clone();
    let closing = tokio::spawn(async move { close(&core, Duration::from_secs(10)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!closing.is_finished());
    answer.send(Ok(reply(Passed::Released { broken: None }))).unwrap();
    assert_eq!(releasing.await.unwrap().unwrap(), Outcome::Released);
    closing.await.unwrap();
}

/// Whoever releases gives the rest up: the pass is the janitor's, and close waits for it.
#[tokio::test]
async fn close_ends_at_once_behind_a_release_that_was_dropped() {
    let play = Play::new(Duration::from_secs(5));
    let record = play.hold("a", LEASE).await;
    let shared = play.core.shared.clone();
    let releasing = tokio::spawn(async move { release(&shared, &record).await });
    let Sent::Pass(passed, _) = play.next().await else { panic!("no pass") };
    releasing.abort();
    let Sent::Pass(owner, answer) = play.next().await else { panic!("no second pass") };
    assert_eq!(owner, passed);
    answer.send(Ok(reply(Passed::Released { broken: None }))).unwrap();
    tokio::time::timeout(SHORT, close(&play.core, Duration::from_secs(10))).await.expect("at once");
}

/// Its checks were not answered for longer than half of the lease; then it is told that the lock is
/// its own. It looks again, and gives nothing away.
#[tokio::test]
async fn a_hold_behind_lost_answers_is_kept() {
    let play = Play::new(SHORT);
    let lease = Duration::from_secs(1);
    let task = play.waiter("a", lease);
    play.no().await;
    let Sent::Listen(answer) = play.next().await else { panic!("no listen") };
    answer.send(Ok(())).unwrap();
    let (owner, answer) = play.take().await;
    answer.send(Ok(in_line(5, Duration::ZERO, Subscribers::Count(1)))).unwrap();
    let lost = [play.take().await, play.take().await];
    for fresh in [false, true] {
        let (asked, answer) = play.take().await;
        assert_eq!(asked, owner);
        assert!(fresh || lost[0].1.is_closed() && lost[1].1.is_closed());
        answer.send(Ok(reply(Taken::Held { token: 7, remaining: lease, unclaimed: false }))).unwrap();
    }
    let record = task.await.unwrap().unwrap();
    assert!(record.is_open() && record.unsure);
    assert_eq!(record.owner, owner);
}

/// The error is that of the whole batch, and not of every hold in it.
#[tokio::test]
async fn a_hold_that_may_not_be_renewed_takes_no_other_with_it() {
    let play = Play::new(Duration::from_secs(5));
    let lease = Duration::from_millis(600);
    let others = [play.hold("a", lease).await, play.hold("b", lease).await];
    let denied = play.hold("denied", lease).await;
    tokio::time::sleep(lease * 2).await;
    assert_eq!(denied.lost_reason(), Some(LostReason::Unreachable));
    for record in others {
        assert!(record.is_open(), "{:?}", record.lost_reason());
    }
}

/// The check that put a waiter back into a lost queue is not answered; the next one finds it there. The
/// client's other waiters enter again all the same.
#[tokio::test]
async fn a_lost_queue_is_filled_again_behind_a_lost_answer() {
    let play = Play::new(SHORT);
    let (first, _one) = play.queued(5, Duration::ZERO, false).await;
    let (second, _two) = play.queued(6, Duration::ZERO, true).await;
    let (asked, lost) = play.take().await;
    assert_eq!(asked, first);
    let (asked, answer) = play.take().await;
    assert!(lost.is_closed(), "the first check timed out");
    assert_eq!(asked, first);
    answer.send(Ok(in_line(5, LEASE, Subscribers::Count(1)))).unwrap();
    let (asked, answer) = play.take().await;
    assert_eq!(asked, second);
    answer.send(Ok(in_line(6, LEASE, Subscribers::Count(1)))).unwrap();
    play.silence().await;
}

/// Pushes are missed in the middle of a refill: what is left of it is not forgotten.
#[tokio::test]
async fn a_refill_that_is_broken_off_begins_anew() {
    let play = Play::new(Duration::from_secs(5));
    let (first, _one) = play.queued(5, Duration::ZERO, false).await;
    let (second, _two) = play.queued(6, LEASE, true).await;
    let (third, _three) = play.queued(7, Duration::ZERO, true).await;
    let lost_queue = || {
        let seen = seen(LEASE);
        let subscribers = Subscribers::Count(1);
        reply(Taken::Queued { ticket: Ticket(5), place: 0, missing: true, subscribers, seen })
    };
    let (asked, answer) = play.take().await;
    assert_eq!(asked, first);
    answer.send(Ok(lost_queue())).unwrap();
    // The refill is under way; the connection breaks, and nothing of it was sent.
    for owner in [second, third] {
        let (asked, answer) = play.take().await;
        assert_eq!(asked, owner);
        let unsent = Fault { may_have_run: false, ..fault(Why::Unavailable) };
        answer.send(Err(unsent)).unwrap();
    }
    play.pushes.send(Push::Missed).unwrap();
    let (asked, answer) = play.take().await;
    assert_eq!(asked, first);
    answer.send(Ok(in_line(5, LEASE, Subscribers::Count(1)))).unwrap();
    for owner in [second, third] {
        let (asked, answer) = play.take().await;
        assert_eq!(asked, owner);
        answer.send(Ok(in_line(6, LEASE, Subscribers::Count(1)))).unwrap();
    }
    play.silence().await;
}
