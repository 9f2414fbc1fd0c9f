//! What a waiter sleeps on, and the turns of its wait.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use tracing::{debug, warn};

use super::asking::{Spec, Stage};
use super::record::Record;
use super::seat::{Seat, Won};
use super::shared::Shared;
use crate::busy::Busy;
use crate::error::{Error, Phase as At};
use crate::server::{Fault, Why};

pub(crate) enum Waited {
    Held(Arc<Record>),
    /// The time was over first.
    Busy(Busy),
}

/// Waits for the lock: first come, first served; for as long as it takes, or `within` that time.
///
/// Without a limit, a server that cannot be reached is tried again for ever.
pub(crate) async fn wait(
    shared: &Arc<Shared>,
    spec: &Arc<Spec>,
    within: Option<Duration>,
) -> Result<Waited, Error> {
    let mut seat = Seat::enter(shared, spec, true)?;
    let Some(within) = within else { return turns(&mut seat).await.map(Waited::Held) };
    match tokio::time::timeout(within, turns(&mut seat)).await {
        Ok(ended) => ended.map(Waited::Held),
        Err(_) => match (seat.fault(), seat.seen()) {
            (Some(fault), _) => Err(seat.error(fault)),
            (None, Some(busy)) if seat.at != At::Claim => Ok(Waited::Busy(busy)),
            (None, _) => Err(seat.error(Fault {
                why: Why::TimedOut,
                text: format!("no answer from the server within {:.1} s", within.as_secs_f64()),
                may_have_run: true,
            })),
        },
    }
}

/// Waits for one's turn, and passes it on at once: leaving the seat does.
pub(crate) async fn until_free(shared: &Arc<Shared>, spec: &Arc<Spec>) -> Result<(), Error> {
    let mut seat = Seat::enter(shared, spec, true)?;
    let mut retry = 0;
    loop {
        ask(&mut seat).await?;
        match changed(&seat).await {
            Stage::Won { .. } | Stage::Granted { .. } => return Ok(()),
            trouble => mend(&mut seat, trouble, &mut retry).await?,
        }
    }
}

/// Asks, sleeps until there is news, deals with it, and asks again, until the news is a hold.
async fn turns(seat: &mut Seat) -> Result<Arc<Record>, Error> {
    let mut retry = 0;
    loop {
        ask(seat).await?;
        let won = match changed(seat).await {
            Stage::Granted { until } => seat.claim(until).await?,
            Stage::Won { sent, token, remaining, unclaimed } => {
                seat.won(sent, token, remaining, unclaimed).await?
            }
            trouble => {
                mend(seat, trouble, &mut retry).await?;
                continue;
            }
        };
        match won {
            Won::Held(record) => return Ok(record),
            Won::TooLate => {
                seat.start_over()?;
                // A server that slow is not asked without a pause.
                let delay = seat.shared.settings.backoff.delay(retry, &seat.shared.chance);
                retry += 1;
                tokio::time::sleep(delay).await;
            }
            Won::NotOurs | Won::Stale => seat.settle(),
        }
    }
}

/// Sends a `take` that enters the queue, or enters it again at the old ticket, behind a confirmed
/// push channel. The channel is opened by the first wait that needs it: a free lock is taken without,
/// also when the channel cannot be opened for now.
async fn ask(seat: &mut Seat) -> Result<(), Error> {
    let mut retry = 0;
    seat.at = At::Acquire;
    while !seat.shared.listening.load(Ordering::Acquire) {
        seat.take_without_waiting().await;
        if !matches!(seat.stage(), Stage::Waiting) {
            return Ok(());
        }
        listen(seat, &mut retry).await?;
    }
    seat.take().await;
    Ok(())
}

/// One attempt to open the push channel, and the pause behind one that failed.
async fn listen(seat: &mut Seat, retry: &mut u32) -> Result<(), Error> {
    seat.at = At::Subscribe;
    match seat.shared.server.listen(seat.shared.settings.command_timeout).await {
        Ok(()) => seat.shared.listening.store(true, Ordering::Release),
        Err(fault) if fault.is_temporary() => pause(seat, &fault, retry).await?,
        Err(fault) => return Err(seat.error(fault)),
    }
    seat.at = At::Acquire;
    Ok(())
}

/// Makes the seat ready to ask again, if there is any use.
async fn mend(seat: &mut Seat, trouble: Stage, retry: &mut u32) -> Result<(), Error> {
    match trouble {
        Stage::Failed(fault) if fault.is_temporary() => {
            pause(seat, &fault, retry).await?;
            seat.settle();
            Ok(())
        }
        Stage::Failed(fault) => Err(seat.error(fault)),
        Stage::Hopeless(why) => Err(seat.hopeless(why)),
        Stage::Closed => Err(seat.closed()),
        Stage::Void | Stage::Waiting | Stage::Granted { .. } | Stage::Won { .. } => seat.start_over(),
    }
}

/// Ends with the first stage that is news.
async fn changed(seat: &Seat) -> Stage {
    poll_fn(|context| {
        let mut table = seat.shared.table();
        let Some(asking) = table.asking(seat.owner.count) else { return Poll::Ready(Stage::Closed) };
        match asking.stage {
            // A claim waits for this owner's own `take`: its answer may be as good.
            Stage::Granted { .. } if asking.in_flight > 0 => {}
            Stage::Waiting => {}
            _ => return Poll::Ready(asking.stage.clone()),
        }
        asking.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

async fn pause(seat: &Seat, fault: &Fault, retry: &mut u32) -> Result<(), Error> {
    let delay = seat.shared.settings.backoff.delay(*retry, &seat.shared.chance);
    if *retry == 0 {
        warn!(lock = seat.spec.keys.name(), owner = %seat.owner, %fault, "the server cannot be asked; trying again");
    } else {
        debug!(lock = seat.spec.keys.name(), owner = %seat.owner, %fault, retry, "still trying");
    }
    *retry += 1;
    tokio::time::sleep(delay).await;
    if matches!(seat.stage(), Stage::Closed) { Err(seat.closed()) } else { Ok(()) }
}
