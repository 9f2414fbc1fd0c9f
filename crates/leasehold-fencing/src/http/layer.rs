//! The service's side.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::header::{HeaderError, token_of};
use super::problem::{bad_header, problem};
use crate::scope::Scope;
use crate::{Gate, Token};

/// A tower layer that lets no request through without a good token.
///
/// | request | answer |
/// |---|---|
/// | without a token | 428 Precondition Required |
/// | malformed, twice, or for another resource | 400 Bad Request |
/// | stale or duplicate | 412 Precondition Failed, a problem+json body with the stored sequence |
///
/// The handler finds the [`Token`] in the request's extensions (in axum: `Extension<Token>`).
///
/// ```
/// use std::sync::Arc;
/// use leasehold_fencing::{Gate, http::FenceLayer};
///
/// let gate = Arc::new(Gate::new());
/// let layer = FenceLayer::new("orders").gate(gate);
/// # let app = axum::Router::<()>::new();
/// let app = app.layer(layer);
/// ```
///
/// # A zombie
///
/// *Before* it sends: its next request is refused. *In the middle of one*: with a [`Gate`], a newer
/// holder's request waits until the older one's have been answered, so a slow handler cannot write
/// behind its successor's back. Put a time limit (tower's `TimeoutLayer`) inside the fence, or a handler
/// that hangs keeps its successor waiting. What a handler leaves running behind its answer is not
/// fenced.
///
/// The gate knows what this process has seen. Where a service has replicas, or restarts, the marks must
/// be with the data: then use the layer without a gate, claim in the handler from
/// `SqlFence` or another store, and answer refusals with
/// [`problem`](super::problem()).
#[derive(Clone)]
pub struct FenceLayer {
    scope: Scope,
    gate: Option<Arc<Gate>>,
    readers_pass: bool,
}

impl FenceLayer {
    /// A layer for `scope` and what is below it, without a gate: it reads the token for the handler.
    #[must_use]
    pub fn new(scope: impl Into<Arc<str>>) -> Self {
        Self { scope: Scope::new(scope), gate: None, readers_pass: false }
    }

    /// Checks each token at this gate, and stays inside until the answer is there.
    #[must_use]
    pub fn gate(mut self, gate: Arc<Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Lets GET, HEAD, OPTIONS and TRACE through without a token: for others who only look. A holder's
    /// own reads should carry it: they claim before they read. Default: every request needs a token.
    #[must_use]
    pub fn let_readers_pass(mut self) -> Self {
        self.readers_pass = true;
        self
    }

    fn token<B>(&self, request: &Request<B>) -> Result<Option<Token>, Box<Response<String>>> {
        match token_of(request.headers()) {
            Ok(token) => match self.scope.check::<Infallible>(&token) {
                Ok(()) => Ok(Some(token)),
                Err(error) => Err(Box::new(problem(&error))),
            },
            Err(HeaderError::Missing) if self.readers_pass && is_read(request.method()) => Ok(None),
            Err(error) => Err(Box::new(bad_header(&error))),
        }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> FenceService<S> {
        FenceService { inner, layer: self.clone() }
    }
}

/// What [`FenceLayer`] makes.
#[derive(Debug, Clone)]
pub struct FenceService<S> {
    inner: S,
    layer: FenceLayer,
}

impl<S, B, R> Service<Request<B>> for FenceService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send,
    B: Send + 'static,
    R: From<String> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    /// Boxed: a name for it would be a type parameter in every signature for the sake of one allocation
    /// a request.
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let token = match self.layer.token(&request) {
            Ok(token) => token,
            Err(refused) => return Box::pin(ready(Ok(refused.map(R::from)))),
        };
        let Some(token) = token else { return Box::pin(self.inner.call(request)) };
        request.extensions_mut().insert(token.clone());
        let Some(gate) = self.layer.gate.clone() else { return Box::pin(self.inner.call(request)) };
        // The one that was polled ready is the one to call; its clone waits for the next request.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let passage = match gate.enter(&token).await {
                Ok(passage) => passage,
                Err(refused) => return Ok(problem::<Infallible>(&refused).map(R::from)),
            };
            let response = inner.call(request).await;
            drop(passage);
            response
        })
    }
}

impl fmt::Debug for FenceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer")
            .field("scope", &self.scope)
            .field("gate", &self.gate)
            .field("readers_pass", &self.readers_pass)
            .finish()
    }
}
