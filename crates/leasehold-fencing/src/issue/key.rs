//! The counter's key: the one that a lock of this name uses.

use super::IssueError;

/// `{name}:fence`, or `name:fence` where the name has a hash tag. An issuer and a lock on one name must
/// count in one place.
pub(super) fn counter_key(resource: &str) -> Result<String, IssueError> {
    let tag = resource
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    match tag {
        Some(tag) if tag.len() + 2 < resource.len() => Ok(format!("{resource}:fence")),
        None if !resource.is_empty() && !resource.contains(['{', '}']) => Ok(format!("{{{resource}}}:fence")),
        _ => Err(IssueError::BadResource(resource.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_locks() {
        assert_eq!(counter_key("lock:a").unwrap(), "{lock:a}:fence");
        assert_eq!(counter_key("order:{42}").unwrap(), "order:{42}:fence");
        for bad in ["", "{a}", "{}", "a{}", "a{b", "a}b", "}{"] {
            assert!(counter_key(bad).is_err(), "{bad}");
        }
    }
}
