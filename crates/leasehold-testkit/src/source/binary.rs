//! A server program on this machine.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::builder::Builder;
use crate::error::Error;
use crate::port::{free, fresh_word};
use crate::process::Process;
use crate::source::{Begun, Seat, ready, tail};
use crate::tls::Authority;
use crate::user::User;

/// The folder of one server, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("leasehold-test-{}", fresh_word()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| Error::new(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
    }

    /// The last words of the server.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        tail(&log)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// The program that the environment names, or the first on the `PATH`.
pub(crate) fn find() -> Result<Option<PathBuf>, Error> {
    if let Some(named) = std::env::var_os("LEASEHOLD_TEST_BINARY").filter(|name| !name.is_empty()) {
        let path = PathBuf::from(&named);
        let path = if path.components().count() > 1 { Some(path) } else { on_path(&path) };
        return match path.filter(|path| is_program(path)) {
            Some(path) => Ok(Some(path)),
            None => Err(Error::new(format!("LEASEHOLD_TEST_BINARY={}: no such program", named.display()))),
        };
    }
    Ok(["redis-server", "valkey-server"].iter().find_map(|name| on_path(Path::new(name))))
}

fn on_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

pub(crate) async fn begin(
    binary: &Path,
    builder: &Builder,
    admin: User,
    lease: User,
) -> Result<Begun, Error> {
    let mut last = None;
    // Between the search for a free port and the server's bind anybody can take it: then another.
    for _ in 0..20 {
        let port = free();
        let folder = Folder::create()?;
        let home = folder.path().display().to_string();
        let tls_port = builder.tls.as_ref().map(|_| free());
        let text = builder.configuration(&home, port, tls_port, &admin, &lease);
        folder.write("server.conf", &format!("bind 127.0.0.1\n{text}"))?;
        for (name, pem) in builder.tls.iter().flat_map(Authority::files) {
            folder.write(name, pem)?;
        }
        let process = Process::spawn(binary, folder.path())?;
        let socket = builder.unix.then(|| format!("{home}/socket"));
        let mut seat = Seat::Process { process: Some(process), binary: binary.to_owned(), folder };
        let address = format!("127.0.0.1:{port}");
        let tls = tls_port.map(|port| format!("127.0.0.1:{port}"));
        match ready(&mut seat, &address, &admin).await {
            Ok(()) => return Ok(Begun { address, tls, socket, prefix: None, admin, lease, seat }),
            Err(error) if error.to_string().contains("in use") => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::new("no free port")))
}
