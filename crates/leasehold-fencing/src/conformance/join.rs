//! Several futures at once, without a runtime.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

type Running<F> = (Pin<Box<F>>, Option<<F as Future>::Output>);

/// Polls all of them, in turn, until the last is done. Forty lines of `FuturesUnordered` were not worth
/// a dependency that every user of the default features would carry.
pub(super) async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Running<F>> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, output) in &mut running {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
