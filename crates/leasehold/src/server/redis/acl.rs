//! The least that an ACL user needs.

/// Commands, in one line of `ACL SETUSER`. The first row is what the connections send, the others
/// what the scripts run, which Redis checks as well.
///
/// `HELLO`, `AUTH` and `QUIT` need no rule. `CLIENT SETNAME`, `CLIENT ID` and `INFO` are done
/// without where they are denied; `+pubsub|numsub` too, but then waiters whose client is gone are
/// served one claim time each.
pub(crate) const COMMANDS: &str = "+evalsha +eval +ping +subscribe +client|setname +client|id +info +select \
     +time +exists +type +pttl +pexpire +del \
     +incr +set +get \
     +hset +hget +hmget +hgetall +hexists +hlen +hdel \
     +zadd +zrem +zrange +zrank +zscore +zcard \
     +publish +pubsub|numsub";

/// The whole rule for locks under `prefix`: keys, side keys (in braces), push channels, commands.
pub(crate) fn rule(prefix: &str) -> String {
    format!("~{prefix}* ~{{{prefix}* &{prefix}push:* {COMMANDS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_key_patterns_and_the_channels() {
        assert!(rule("app:").starts_with("~app:* ~{app:* &app:push:* +evalsha "));
        assert!(!COMMANDS.contains("  "));
    }
}
