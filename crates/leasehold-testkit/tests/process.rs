//! What concerns a whole test process: it runs again as a child, with another environment or another end.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_testkit::{Server, eventually, keys};

const ROLE: &str = "LEASEHOLD_TESTKIT_CHILD";

/// This test binary again, running that one test in a role.
fn child(test: &str) -> std::io::Result<Command> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["--exact", test, "--nocapture"]).env(ROLE, test);
    Ok(child)
}

fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

#[tokio::test]
async fn a_killed_test_leaves_no_server_and_no_folder() -> std::io::Result<()> {
    if is_child() {
        let server = Server::own().await;
        let home = server.admin().await.call(&["CONFIG", "GET", "dir"]).await.texts().pop();
        println!("\nserver {} {} {}", server.address(), home.unwrap_or_default(), server.source());
        tokio::time::sleep(Duration::from_secs(60)).await;
        return Ok(());
    }
    let mut child = child("a_killed_test_leaves_no_server_and_no_folder")?.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?).lines();
    let line = lines.map_while(Result::ok).find(|line| line.starts_with("server ")).unwrap_or_default();
    let mut words = line.split(' ').skip(1).map(str::to_owned);
    let (address, home) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let outside = words.next().is_some_and(|source| source != "container");
    assert_eq!(std::fs::exists(&home)?, outside, "{line}");
    child.kill()?;
    child.wait()?;
    let refused = async || tokio::net::TcpStream::connect(&address).await.is_err();
    eventually("the server is gone", Duration::from_secs(5), refused).await;
    let removed = async || std::fs::exists(&home).is_ok_and(|exists| !exists);
    eventually("its folder is gone", Duration::from_secs(5), removed).await;
    Ok(())
}

#[tokio::test]
async fn an_address_gives_each_test_a_user_and_a_prefix_and_takes_them_back() -> std::io::Result<()> {
    if is_child() {
        let (one, two) = (Server::start().await, Server::start().await);
        assert_eq!(one.address(), two.address());
        assert_ne!((one.prefix(), one.url()), (two.prefix(), two.url()));
        let own = Server::own().await;
        assert_ne!(own.address(), one.address());
        own.restart().await;
        let mut admin = one.admin().await;
        for prefix in [one.prefix(), two.prefix()] {
            admin.call(&["SET", &format!("{prefix}a"), "1"]).await;
            admin.call(&["SET", &format!("{{{prefix}a}}:queue"), "1"]).await;
        }
        assert_eq!(admin.call(&["ACL", "USERS"]).await.array().len(), 5);
        return Ok(());
    }
    let server = Server::own().await;
    server.admin().await.call(&["SET", "other", "1"]).await;
    let output = child("an_address_gives_each_test_a_user_and_a_prefix_and_takes_them_back")?
        .env("LEASEHOLD_TEST_ADDRESS", server.open_url())
        .env_remove("LEASEHOLD_TEST_SERVER")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stdout));
    assert!(said.contains(&format!("from address {}", server.address())), "{said}");
    assert_eq!(keys(&mut server.admin().await).await, ["other"]);
    let users = server.admin().await.call(&["ACL", "USERS"]).await.texts();
    assert_eq!(users, ["default", "lease", "testkit"]);
    Ok(())
}
