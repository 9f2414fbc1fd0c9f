//! A running server that the environment names.

use crate::admin::Admin;
use crate::builder::Builder;
use crate::error::Error;
use crate::port::fresh_word;
use crate::source::{Begun, Seat, answers, say};
use crate::user::User;

/// Host and port, and a user who may do everything there.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    at: String,
    admin: User,
}

/// What one test made on a shared server, and takes away again.
pub(crate) struct Guest {
    address: Address,
    user: String,
    prefix: String,
}

pub(crate) fn find() -> Result<Option<Address>, Error> {
    let Ok(url) = std::env::var("LEASEHOLD_TEST_ADDRESS") else { return Ok(None) };
    if url.is_empty() {
        return Ok(None);
    }
    let wrong = || Error::new("LEASEHOLD_TEST_ADDRESS is not like redis://user:password@host:port");
    let rest = url
        .split_once("://")
        .map_or(Some(url.as_str()), |(scheme, rest)| matches!(scheme, "redis" | "valkey").then_some(rest));
    let rest = rest.ok_or_else(wrong)?.trim_end_matches('/');
    let (login, at) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (name, password) = login.split_once(':').unwrap_or(("", login));
    let at = if at.contains(':') { at.to_owned() } else { format!("{at}:6379") };
    if at.contains('/') {
        return Err(wrong());
    }
    Ok(Some(Address { at, admin: User { name: name.to_owned(), password: password.to_owned() } }))
}

impl Address {
    /// Without the password.
    pub(crate) fn shown(&self) -> &str {
        &self.at
    }

    pub(crate) async fn begin(&self, builder: &Builder, lease: User) -> Result<Begun, Error> {
        answers(&self.at, &self.admin, async || None).await?;
        let word = fresh_word();
        // Two tests share this server: neither may see the other's keys.
        let prefix = format!("{}{word}:", builder.prefix.as_deref().unwrap_or("t"));
        let lease = User { name: format!("lease-{word}"), password: lease.password };
        let mut admin = self.connect().await?;
        let mut words = vec!["ACL".to_owned(), "SETUSER".to_owned(), lease.name.clone()];
        words.extend(["reset".to_owned(), "on".to_owned(), format!(">{}", lease.password)]);
        words.extend(builder.rule_for(&prefix).split_whitespace().map(str::to_owned));
        let reply = admin.try_call(&words).await.map_err(|error| Error::new(error.to_string()))?;
        if let Some(error) = reply.error() {
            return Err(Error::new(format!("{}: ACL SETUSER: {error}", self.at)));
        }
        let guest = Guest { address: self.clone(), user: lease.name.clone(), prefix: prefix.clone() };
        Ok(Begun {
            address: self.at.clone(),
            tls: None,
            socket: None,
            prefix: Some(prefix),
            admin: self.admin.clone(),
            lease,
            seat: Seat::Shared { _guest: guest },
        })
    }

    async fn connect(&self) -> Result<Admin, Error> {
        Admin::connect(&self.at, &self.admin.name, &self.admin.password)
            .await
            .map_err(|error| Error::new(format!("{}: {error}", self.at)))
    }
}

impl Guest {
    async fn leave(&self) -> Result<(), Error> {
        let mut admin = self.address.connect().await?;
        // A user's connections end with the user.
        let mut gone = vec![admin.try_call(&["ACL", "DELUSER", &self.user]).await];
        for key in crate::keys(&mut admin).await {
            if key.trim_start_matches('{').starts_with(&self.prefix) {
                gone.push(admin.try_call(&["DEL", &key]).await);
            }
        }
        gone.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| Error::new(error.to_string()))?;
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A thread with a runtime of its own: the test's may be ending, or not exist.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                if let Ok(runtime) = runtime
                    && let Err(error) = runtime.block_on(self.leave())
                {
                    say(&format!("user {} stays: {error}", self.user));
                }
            });
        });
    }
}
