//! An HTTP service behind the fence, over TCP.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Extension, http};
use leasehold_fencing::http::{AttachError, AttachLayer, FENCE_TOKEN, FenceLayer, attach};
use leasehold_fencing::{Gate, Holding, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::tokens::token;

/// A register whose change takes its time, as a handler's does that asks other services in between.
#[derive(Default)]
struct Register {
    value: AtomicU64,
    slow: AtomicU64,
}

async fn add_one(State(register): State<Arc<Register>>, Extension(token): Extension<Token>) -> String {
    let value = register.value.load(Ordering::SeqCst);
    // Only the older holder is slow.
    if token.sequence() == 7 {
        tokio::time::sleep(Duration::from_millis(register.slow.load(Ordering::SeqCst))).await;
    }
    register.value.store(value + 1, Ordering::SeqCst);
    (value + 1).to_string()
}

async fn serve(layer: FenceLayer, register: Arc<Register>) -> String {
    let app = Router::new()
        .route("/add", post(add_one))
        .route(
            "/value",
            get(async |State(register): State<Arc<Register>>| {
                register.value.load(Ordering::SeqCst).to_string()
            }),
        )
        .layer(layer)
        .with_state(register);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// Status and the whole answer, headers included.
async fn ask(address: &str, method: &str, path: &str, headers: &[String]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer[9..12].parse().unwrap(), answer)
}

fn header(token: &Token) -> String {
    format!("Fence-Token: {token}")
}

#[tokio::test]
async fn each_refusal_has_its_status_and_says_why() {
    let layer = FenceLayer::new("orders").gate(Arc::new(Gate::new()));
    let register = Arc::new(Register::default());
    let address = serve(layer, Arc::clone(&register)).await;
    let good = header(&token("orders:1", 9, 2));
    assert_eq!(ask(&address, "POST", "/add", std::slice::from_ref(&good)).await.0, 200);
    assert_eq!(ask(&address, "POST", "/add", std::slice::from_ref(&good)).await.0, 200, "several writes");
    let cases = [
        (428, vec![]),
        (400, vec!["Fence-Token: nonsense".into()]),
        (400, vec!["Fence-Token: ".into()]),
        (400, vec!["Fence-Token: ключ".into()]),
        (400, vec![good.clone(), good.clone()]),
        (400, vec![header(&token("invoices:1", 9, 2))]),
        (412, vec![header(&token("orders:1", 7, 1))]),
        (412, vec![header(&token("orders:1", 9, 3))]),
    ];
    for (status, headers) in cases {
        let (got, answer) = ask(&address, "POST", "/add", &headers).await;
        assert_eq!(got, status, "{headers:?}: {answer}");
        assert!(answer.contains("content-type: application/problem+json"), "{answer}");
        let json: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(json["status"], status, "{json}");
        assert_eq!(json["stored"] == "9", status == 412, "{json}");
    }
    assert_eq!(register.value.load(Ordering::SeqCst), 2);
    assert_eq!(ask(&address, "GET", "/value", &[]).await.0, 428);
}

#[tokio::test]
async fn readers_pass_if_told_so_and_claim_if_they_hold() {
    let layer = FenceLayer::new("orders").gate(Arc::new(Gate::new())).let_readers_pass();
    let address = serve(layer, Arc::default()).await;
    assert_eq!(ask(&address, "GET", "/value", &[]).await.0, 200);
    assert_eq!(ask(&address, "POST", "/add", &[]).await.0, 428);
    let old = header(&token("orders:1", 7, 1));
    assert_eq!(ask(&address, "POST", "/add", std::slice::from_ref(&old)).await.0, 200);
    // The successor has only read: the older holder is out.
    assert_eq!(ask(&address, "GET", "/value", &[header(&token("orders:1", 8, 2))]).await.0, 200);
    assert_eq!(ask(&address, "POST", "/add", &[old]).await.0, 412);
    assert_eq!(ask(&address, "GET", "/value", &["Fence-Token: x".into()]).await.0, 400);
}

/// Two holders add one each, the older one's request in the middle of its handler.
async fn overlap(layer: FenceLayer) -> u64 {
    let register = Arc::new(Register::default());
    register.slow.store(150, Ordering::SeqCst);
    let address = serve(layer, Arc::clone(&register)).await;
    let zombie = {
        let address = address.clone();
        tokio::spawn(async move { ask(&address, "POST", "/add", &[header(&token("orders:1", 7, 1))]).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(ask(&address, "POST", "/add", &[header(&token("orders:1", 8, 2))]).await.0, 200);
    assert_eq!(zombie.await.unwrap().0, 200);
    register.value.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_slow_request_cannot_write_behind_its_successors_back() {
    assert_eq!(overlap(FenceLayer::new("orders").gate(Arc::new(Gate::new()))).await, 2);
    assert_eq!(overlap(FenceLayer::new("orders")).await, 1, "the check is blind: nothing was lost");
}

/// A guard, as the lock makes them.
struct Guard {
    token: Mutex<Token>,
    remaining: Mutex<Duration>,
}

impl Holding for Guard {
    fn token(&self) -> Token {
        self.token.lock().unwrap().clone()
    }

    fn remaining(&self) -> Duration {
        *self.remaining.lock().unwrap()
    }
}

#[tokio::test]
async fn a_client_whose_time_is_over_sends_nothing() {
    let guard = Arc::new(Guard {
        token: Mutex::new(token("orders:1", 7, 1)),
        remaining: Mutex::new(Duration::from_secs(1)),
    });
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let mut client =
        AttachLayer::new(Arc::clone(&guard)).layer(service_fn(move |request: http::Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let header = request.headers()[FENCE_TOKEN].to_str().unwrap().to_owned();
            async move { Ok::<_, std::io::Error>(http::Response::new(header)) }
        }));
    let mut send = async || client.ready().await.unwrap().call(http::Request::new(Body::empty())).await;
    assert_eq!(send().await.unwrap().into_body(), token("orders:1", 7, 1).to_string());
    // Issued anew in place: the next request carries it.
    *guard.token.lock().unwrap() = token("orders:1", 9, 1);
    assert_eq!(send().await.unwrap().into_body(), token("orders:1", 9, 1).to_string());
    *guard.remaining.lock().unwrap() = Duration::ZERO;
    assert!(matches!(send().await, Err(AttachError::NotHeld(_))));
    assert!(attach(&guard, &mut http::HeaderMap::new()).is_err());
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}
