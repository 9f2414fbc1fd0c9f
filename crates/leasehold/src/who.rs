//! Label, host and process of a holder, as one short text for others to see.
//!
//! `p<process>@<host>/<label>`: it begins with a letter, so that no script of another library takes
//! it for a count, and stays within 64 bytes, so that the holder's hash stays compact.

use std::sync::LazyLock;

const MAX_BYTES: usize = 64;

/// The longest label, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 32;

/// This process under `label` (which has been checked).
pub(crate) fn text(label: &str) -> String {
    let mut text = format!("p{}@", std::process::id());
    let room = MAX_BYTES - text.len() - label.len() - 1;
    let mut end = HOST.len().min(room);
    while !HOST.is_char_boundary(end) {
        end -= 1;
    }
    text.push_str(&HOST[..end]);
    text.push('/');
    text.push_str(label);
    text
}

/// Why a label is refused, if it is.
pub(crate) fn check_label(label: &str) -> Result<(), String> {
    if label.len() > MAX_LABEL_BYTES {
        Err(format!("the label is {} bytes; at most {MAX_LABEL_BYTES} are allowed", label.len()))
    } else if label.chars().any(char::is_control) {
        Err("the label has a control character".to_owned())
    } else {
        Ok(())
    }
}

/// Process, host and label; what is not understood is `None`.
pub(crate) fn parse(text: &str) -> (Option<u32>, Option<String>, Option<String>) {
    let Some((process, rest)) = text.strip_prefix('p').and_then(|text| text.split_once('@')) else {
        return (None, None, None);
    };
    let (host, label) = rest.split_once('/').unwrap_or((rest, ""));
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    (process.parse().ok(), some(host), some(label))
}

static HOST: LazyLock<String> = LazyLock::new(|| host_name().replace(['/', '\0'], "-"));

#[cfg(target_os = "linux")]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
fn host_name() -> String {
    std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let label = "x".repeat(MAX_LABEL_BYTES);
        let text = text(&label);
        assert!(text.len() <= MAX_BYTES, "{text}");
        let (process, host, back) = parse(&text);
        assert_eq!(process, Some(std::process::id()));
        assert!(host.is_some());
        assert_eq!(back, Some(label));
        assert_eq!(parse("p7@h/a/b"), (Some(7), Some("h".to_owned()), Some("a/b".to_owned())));
        for odd in ["", "p", "p@", "x9@h/l", "p-1@/", "@/"] {
            let (process, ..) = parse(odd);
            assert_eq!(process, None, "{odd}");
        }
        assert!(check_label("a\nb").is_err() && check_label(&"x".repeat(33)).is_err());
    }
}
