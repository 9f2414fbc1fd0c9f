//! The five Lua texts: put together once, and known to the server by their digest.

use std::sync::LazyLock;

use leasehold_fencing::lua::ISSUE;

pub(super) struct Script {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) sha: String,
}

pub(super) struct Scripts {
    pub(super) take: Script,
    pub(super) claim: Script,
    pub(super) renew: Script,
    pub(super) pass: Script,
    pub(super) look: Script,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    take: Script::new("take", include_str!("../scripts/take.lua")),
    claim: Script::new("claim", include_str!("../scripts/claim.lua")),
    renew: Script::new("renew", include_str!("../scripts/renew.lua")),
    pass: Script::new("pass", include_str!("../scripts/pass.lua")),
    look: Script::new("look", include_str!("../scripts/look.lua")),
});

/// What a line `--@splice <name>` stands for.
const FRAGMENTS: [(&str, &str); 4] = [
    ("issue", ISSUE),
    ("common", include_str!("../scripts/common.lua")),
    ("hand_over", include_str!("../scripts/hand_over.lua")),
    ("fingerprint", include_str!("../scripts/fingerprint.lua")),
];

impl Script {
    fn new(name: &'static str, source: &str) -> Self {
        let text = splice(source);
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { name, text, sha }
    }
}

/// Fragments are spliced, not loaded as functions: a script's text must be whole, and a call costs
/// more than a line. Comments stay behind, so that the server's cache holds only what runs.
fn splice(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    for line in source.lines() {
        let bare = line.trim_start();
        if let Some(name) = bare.strip_prefix("--@splice ") {
            let fragment = FRAGMENTS.iter().find(|(known, _)| *known == name);
            text.push_str(&splice(fragment.map_or("", |(_, text)| text)));
        } else if !bare.starts_with("--") && !bare.is_empty() {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<(&'static str, &'static str)> {
        let mut all = FRAGMENTS.to_vec();
        all.push(("take", include_str!("../scripts/take.lua")));
        all.push(("claim", include_str!("../scripts/claim.lua")));
        all.push(("renew", include_str!("../scripts/renew.lua")));
        all.push(("pass", include_str!("../scripts/pass.lua")));
        all.push(("look", include_str!("../scripts/look.lua")));
        all
    }

    #[test]
    fn every_splice_names_a_fragment() {
        for (name, source) in sources() {
            for line in source.lines() {
                if let Some(wanted) = line.trim_start().strip_prefix("--@splice ") {
                    assert!(FRAGMENTS.iter().any(|(known, _)| *known == wanted), "{name}: {wanted}");
                }
            }
        }
        assert!(SCRIPTS.take.text.contains("'INCR', fence"));
        assert!(SCRIPTS.look.text.starts_with("#!lua flags=no-writes\n"));
        assert!(!SCRIPTS.pass.text.contains("--"));
    }

    /// Beyond 10^14 Lua's own formatting drops digits: a token written so would be another token.
    #[test]
    fn trap_f7_no_number_is_formatted_by_lua() {
        // What may stand beside `..`: texts. Whatever holds a number has one of these names.
        let numbers =
            ["now", "token", "promise", "count", "place", "score", "life", "remaining", "rest", "seen"];
        for (name, source) in sources() {
            for (at, line) in source.lines().enumerate() {
                let code = line.split("--").next().unwrap_or("");
                for never in ["tostring", "cjson", "cmsgpack"] {
                    assert!(!code.contains(never), "{name}.lua:{}: {never}", at + 1);
                }
                if let Some((_, format)) = code.split_once("string.format(") {
                    let exact = format.matches("%.0f").count() + format.matches("%s").count();
                    assert_eq!(format.matches('%').count(), exact, "{name}.lua:{}: {format}", at + 1);
                }
                let words: Vec<&str> = code.split_whitespace().collect();
                for pair in words.windows(2) {
                    let (left, right) = (pair[0], pair[1]);
                    let beside = if right == ".." {
                        left
                    } else if left == ".." {
                        right
                    } else {
                        continue;
                    };
                    let bare = beside.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
                    assert!(!numbers.contains(&bare), "{name}.lua:{}: {beside} beside ..", at + 1);
                }
            }
        }
    }
}
