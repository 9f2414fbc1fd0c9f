//! Refusals as RFC 9457 says them.

use http::{Response, StatusCode, header::CONTENT_TYPE};

use super::HeaderError;
use crate::{FenceError, Mark};

/// The answer to a request that a store refused, for handlers that keep their data in a fenced store.
///
/// | error | status |
/// |---|---|
/// | stale, duplicate, claim lost | 412 Precondition Failed, with the stored sequence |
/// | another resource's token, name too long | 400 Bad Request |
/// | no such row | 404 Not Found |
/// | the store failed | 503 Service Unavailable, without the store's own words |
///
/// Never 409 Conflict: clients try that again.
#[must_use]
pub fn problem<E>(error: &FenceError<E>) -> Response<String> {
    let stored = error.stored();
    match error {
        FenceError::Stale { .. } => respond(
            StatusCode::PRECONDITION_FAILED,
            "stale fencing token",
            "a later holder has been here",
            stored,
        ),
        FenceError::Duplicate { .. } => respond(
            StatusCode::PRECONDITION_FAILED,
            "duplicate fencing token",
            "another holder was given the same sequence",
            stored,
        ),
        FenceError::NoClaim { .. } => respond(
            StatusCode::PRECONDITION_FAILED,
            "claim lost",
            "the store has forgotten the claim; what was read under it is void",
            None,
        ),
        FenceError::WrongResource { .. } => {
            respond(StatusCode::BAD_REQUEST, "wrong resource", "the token is for something else", None)
        }
        FenceError::NameTooLong { .. } => {
            respond(StatusCode::BAD_REQUEST, "resource name too long", "the store cannot keep it", None)
        }
        FenceError::NoSuchRow { .. } => {
            respond(StatusCode::NOT_FOUND, "no such row", "there was nothing to compare with", None)
        }
        FenceError::Store(_) => {
            respond(StatusCode::SERVICE_UNAVAILABLE, "store unavailable", "asking again is safe", None)
        }
    }
}

pub(super) fn bad_header(error: &HeaderError) -> Response<String> {
    let (status, title) = match error {
        HeaderError::Missing => (StatusCode::PRECONDITION_REQUIRED, "fencing token required"),
        HeaderError::Several | HeaderError::Malformed(_) => {
            (StatusCode::BAD_REQUEST, "malformed fencing token")
        }
    };
    respond(status, title, &error.to_string(), None)
}

/// JSON by hand: every text is one of this library's, which contain nothing that JSON escapes, but for
/// the one check below. The sequence is text as well: a JSON reader may have doubles for numbers.
fn respond(status: StatusCode, title: &str, detail: &str, stored: Option<Mark>) -> Response<String> {
    let detail = detail.replace(['"', '\\'], "'");
    let stored = stored.map_or(String::new(), |mark| format!(",\"stored\":\"{}\"", mark.sequence()));
    let status_number = status.as_u16();
    let body = format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{status_number},\"detail\":\"{detail}\"{stored}}}"
    );
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
