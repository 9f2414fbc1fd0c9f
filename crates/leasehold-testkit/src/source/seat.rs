//! What a server runs in, and what can be done to it there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::error::Error;
use crate::patience;
use crate::process::Process;
use crate::source::{address, binary, container};
use crate::user::User;

/// What a server runs in.
pub(crate) enum Seat {
    /// Kept for its drop.
    Shared {
        _guest: address::Guest,
    },
    Container(container::Held),
    Process {
        process: Option<Process>,
        binary: PathBuf,
        folder: binary::Folder,
    },
}

impl Seat {
    pub(crate) async fn start(&mut self) -> Result<(), Error> {
        match self {
            Self::Shared { .. } => Err(shared()),
            Self::Container(held) => held.start().await,
            Self::Process { process, binary, folder } => {
                *process = Some(Process::spawn(binary, folder.path())?);
                Ok(())
            }
        }
    }

    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        match self {
            Self::Shared { .. } => Err(shared()),
            Self::Container(held) => held.kill().await,
            Self::Process { process, .. } => {
                *process = None;
                Ok(())
            }
        }
    }

    pub(crate) async fn pause(&self) -> Result<(), Error> {
        match self {
            Self::Shared { .. } => Err(shared()),
            Self::Container(held) => held.pause().await,
            Self::Process { process, .. } => running(process.as_ref())?.pause(),
        }
    }

    pub(crate) async fn resume(&self) -> Result<(), Error> {
        match self {
            Self::Shared { .. } => Err(shared()),
            Self::Container(held) => held.resume().await,
            Self::Process { process, .. } => running(process.as_ref())?.resume(),
        }
    }

    /// Why it ended by itself, if it did.
    async fn ended(&mut self) -> Option<Error> {
        match self {
            Self::Process { process, folder, .. } => {
                let ended = process.as_mut().is_none_or(Process::has_ended);
                ended.then(|| Error::new(format!("the server ended: {}", folder.log_tail())))
            }
            Self::Container(held) => held.ended().await,
            Self::Shared { .. } => None,
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
    answers(address, admin, async || seat.ended().await).await
}

/// Waits until a server answers this user, or has ended.
pub(crate) async fn answers(
    address: &str,
    user: &User,
    mut ended: impl AsyncFnMut() -> Option<Error>,
) -> Result<(), Error> {
    let bound = patience(Duration::from_secs(15));
    let start = Instant::now();
    loop {
        let said = match Admin::connect(address, &user.name, &user.password).await {
            Ok(mut admin) => match admin.try_call(&["PING"]).await {
                Ok(reply) if reply.error().is_none() => return Ok(()),
                Ok(reply) => format!("{reply:?}"),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        if let Some(error) = ended().await {
            return Err(error);
        }
        if start.elapsed() > bound {
            return Err(Error::new(format!("{address} does not answer: {said}")));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
