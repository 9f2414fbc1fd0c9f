//! The client's side.

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request};
use tower_layer::Layer;
use tower_service::Service;

use super::header::{FENCE_TOKEN, value_of};
use crate::{Holding, Token};

/// The hold was over before the request was sent. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not sent: the hold of token {token} is over")]
pub struct NotHeld {
    /// The token of the hold.
    pub token: Token,
}

/// Puts the hold's token into a request's headers, unless the hold is over. For clients that are no
/// tower services: `reqwest` uses these headers too.
///
/// # Errors
///
/// [`NotHeld`], once the deadline has passed.
pub fn attach(held: &impl Holding, headers: &mut HeaderMap) -> Result<(), NotHeld> {
    let token = held.token();
    match value_of(&token) {
        Some(value) if !held.remaining().is_zero() => {
            headers.insert(FENCE_TOKEN, value);
            Ok(())
        }
        _ => Err(NotHeld { token }),
    }
}

/// A tower layer for clients: attaches the token, and refuses by itself once the hold is over.
///
/// Put it *below* a layer that tries again, so that each attempt is checked. A request that is on its
/// way when the deadline passes is the service's to refuse; a time limit of
/// [`remaining`](Holding::remaining) keeps one from waiting for its answer.
#[derive(Debug, Clone)]
pub struct AttachLayer<H> {
    held: H,
}

impl<H: Holding + Clone> AttachLayer<H> {
    /// For one hold: a guard in an `Arc`, for one.
    pub fn new(held: H) -> Self {
        Self { held }
    }
}

impl<S, H: Holding + Clone> Layer<S> for AttachLayer<H> {
    type Service = AttachService<S, H>;

    fn layer(&self, inner: S) -> AttachService<S, H> {
        AttachService { inner, held: self.held.clone() }
    }
}

/// What [`AttachLayer`] makes.
#[derive(Debug, Clone)]
pub struct AttachService<S, H> {
    inner: S,
    held: H,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError<E> {
    /// It was not sent.
    #[error(transparent)]
    NotHeld(#[from] NotHeld),
    /// The service below failed.
    #[error("{0}")]
    Inner(E),
}

impl<S, H, B> Service<Request<B>> for AttachService<S, H>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
    H: Holding,
{
    type Response = S::Response;
    type Error = AttachError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, AttachError<S::Error>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(AttachError::Inner)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Err(over) = attach(&self.held, request.headers_mut()) {
            return Box::pin(ready(Err(over.into())));
        }
        let sent = self.inner.call(request);
        Box::pin(async move { sent.await.map_err(AttachError::Inner) })
    }
}
