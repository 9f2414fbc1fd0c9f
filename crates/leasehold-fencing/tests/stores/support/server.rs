//! Database servers: started when first asked for, shared by the tests that run at that time, stopped
//! with the last of them.

use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::tokens::fresh;

/// A running server. Dropping it kills it: nothing here wants to be durable beyond a test.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    child: Option<Child>,
    directory: PathBuf,
}

impl Server {
    fn spawned(url: String, child: Child, directory: PathBuf) -> Self {
        Self { url, child: Some(child), directory }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // SIGQUIT is PostgreSQL's immediate shutdown: a SIGKILL would orphan its helpers.
        let _ = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
        let patience = Instant::now() + Duration::from_secs(5);
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One kind of server, shared.
pub(crate) struct Shared {
    name: &'static str,
    variable: &'static str,
    start: fn(PathBuf) -> Option<Server>,
    running: Mutex<Weak<Server>>,
}

pub(crate) static POSTGRES: Shared = Shared::new("PostgreSQL", "LEASEHOLD_POSTGRES", postgres);
pub(crate) static MARIADB: Shared = Shared::new("MariaDB", "LEASEHOLD_MYSQL", mariadb);

impl Shared {
    const fn new(name: &'static str, variable: &'static str, start: fn(PathBuf) -> Option<Server>) -> Self {
        Self { name, variable, start, running: Mutex::new(Weak::new()) }
    }

    /// The server, or `None` with a line that says so.
    pub(crate) fn get(&self) -> Option<Arc<Server>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = running.upgrade() {
            return Some(server);
        }
        let started = match std::env::var(self.variable) {
            Ok(url) => Some(Server { url, child: None, directory: PathBuf::new() }),
            Err(_) => (self.start)(std::env::temp_dir().join(fresh("leasehold"))),
        };
        let Some(server) = started.map(Arc::new) else {
            assert!(std::env::var_os("LEASEHOLD_REQUIRE_ALL").is_none(), "{} is missing", self.name);
            eprintln!("SKIPPED: {} is not installed, and {} is not set", self.name, self.variable);
            return None;
        };
        *running = Arc::downgrade(&server);
        Some(server)
    }
}

fn postgres(directory: PathBuf) -> Option<Server> {
    let bin = newest("/usr/lib/postgresql", "bin/postgres")
        .map(|postgres| postgres.with_file_name(""))
        .or_else(|| Some(which("postgres")?.with_file_name("")))?;
    let account = Account::unprivileged("postgres");
    let mut initdb = account.command(&bin.join("initdb"));
    initdb.args(["-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "-D"]).arg(&directory);
    run(&mut initdb);
    let mut postgres = account.command(&bin.join("postgres"));
    postgres.arg("-D").arg(&directory).arg("-k").arg(&directory);
    postgres.args(["-c", "listen_addresses=", "-c", "max_connections=300"]);
    // A bench measures what users pay; a test only wants to be quick.
    if std::env::var_os("LEASEHOLD_DURABLE").is_none() {
        postgres.args(["-c", "fsync=off"]);
    }
    let child = postgres.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_for(&directory.join(".s.PGSQL.5432"));
    let url = format!("postgres://postgres@localhost/postgres?host={}", directory.display());
    // The socket is there before the server takes connections; sqlx's pool retries refusals.
    Some(Server::spawned(url, child, directory))
}

fn mariadb(directory: PathBuf) -> Option<Server> {
    let install = which("mariadb-install-db")?;
    let account = Account::current();
    let mut install = Command::new(install);
    install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    install.arg(format!("--user={}", account.name)).arg(format!("--datadir={}", directory.display()));
    run(&mut install);
    let socket = directory.join("sock");
    let mut mariadbd = Command::new(which("mariadbd")?);
    mariadbd.args(["--no-defaults", "--skip-networking", "--innodb-flush-log-at-trx-commit=0"]);
    mariadbd.args(["--max-connections=300", "--default-storage-engine=MyISAM"]);
    mariadbd.arg(format!("--user={}", account.name)).arg(format!("--datadir={}", directory.display()));
    mariadbd.arg(format!("--socket={}", socket.display()));
    let child = mariadbd.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    wait_for(&socket);
    let url = format!("mysql://root@localhost/mysql?socket={}", socket.display());
    Some(Server::spawned(url, child, directory))
}

/// PostgreSQL refuses to run as root, so root runs it as its own user.
struct Account {
    name: String,
    ids: Option<(u32, u32)>,
}

impl Account {
    fn current() -> Self {
        Self { name: id(&["-un"]).unwrap(), ids: None }
    }

    fn unprivileged(name: &str) -> Self {
        let current = Self::current();
        if current.name != "root" {
            return current;
        }
        let number = |flag| Some(id(&[flag, name])?.parse().unwrap());
        Self { name: name.into(), ids: number("-u").zip(number("-g")) }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(std::env::temp_dir());
        if let Some((user, group)) = self.ids {
            command.uid(user).gid(group);
        }
        command
    }
}

fn id(arguments: &[&str]) -> Option<String> {
    let output = Command::new("id").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.map(|place| place.join(program)).find(|file| file.is_file())
}

fn newest(place: &str, file: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(place).ok()?.flatten().map(|entry| entry.path().join(file));
    versions.filter(|file| file.is_file()).max()
}

fn wait_for(socket: &Path) {
    let patience = Instant::now() + Duration::from_secs(30);
    while UnixStream::connect(socket).is_err() {
        assert!(Instant::now() < patience, "{} did not come up", socket.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
