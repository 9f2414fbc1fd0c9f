//! The example, from end to end.

use std::process::Stdio;
use std::time::Duration;

use leasehold_testkit::patience;
use tokio::process::Command;

/// One line of it: who, with which token, says what.
#[derive(Debug)]
struct Line<'a> {
    who: &'a str,
    token: u64,
    text: &'a str,
}

fn line(text: &str) -> Option<Line<'_>> {
    let (_time, rest) = text.split_once(" s  ")?;
    let (who, rest) = rest.split_once("  token ")?;
    let (token, text) = rest.split_once("  ")?;
    Some(Line { who: who.trim_end(), token: token.parse().ok()?, text })
}

#[tokio::test]
async fn must_1_the_daily_report_is_written_once_and_the_invoices_go_out_in_turn() {
    let play = Command::new(env!("CARGO_BIN_EXE_daily-report"))
        .env_remove("LEASEHOLD_URL")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(patience(Duration::from_secs(90)), play).await.expect("it ends").unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let wrong = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}{wrong}");
    let lines: Vec<_> = said.lines().filter_map(line).collect();
    let of = |what: &str| lines.iter().filter(|line| line.text.contains(what)).collect::<Vec<_>>();

    // One writes the report, past several leases; the others skip, and know who does it.
    let [winner] = of("writes the report")[..] else { panic!("{said}") };
    let skips = of("skips the report");
    assert_eq!(skips.len(), 2, "{said}");
    for skip in skips {
        assert_ne!(skip.who, winner.who);
        assert_eq!(skip.token, winner.token);
        assert!(skip.text.contains(&format!("held by {} (process ", winner.who)), "{said}");
        assert!(skip.text.contains(" since "), "{said}");
    }
    let pages = of("of the report is written");
    assert_eq!(pages.len(), 10, "{said}");
    assert!(pages.iter().all(|page| (page.who, page.token) == (winner.who, winner.token)), "{said}");

    // They are served in the order in which they came, with growing tokens; one dies at it.
    let order = ["replica-3", "replica-1", "replica-2", "replica-3", "replica-1", "replica-2"];
    let turns = of("has lock:invoices, its turn");
    assert_eq!(turns.iter().map(|turn| turn.who).collect::<Vec<_>>(), order, "{said}");
    assert!(turns.windows(2).all(|two| two[0].token < two[1].token), "{said}");
    let waits: Vec<_> = of("waits at place").iter().map(|wait| wait.who).collect();
    assert_eq!(waits, ["replica-3", "replica-1", "replica-2", "replica-1", "replica-2"], "{said}");
    let [killed] = of("is killed (SIGKILL)")[..] else { panic!("{said}") };
    assert_eq!((killed.who, killed.token), (turns[3].who, turns[3].token), "{said}");
    let sent: Vec<_> = of("has sent").iter().map(|sent| sent.who).collect();
    assert_eq!(sent, ["replica-3", "replica-1", "replica-2", "replica-1", "replica-2"], "{said}");
    assert!(of("perhaps").is_empty() && of("lost").is_empty(), "{said}");
}
