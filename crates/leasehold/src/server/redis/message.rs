//! What a script pushes, as a text: `<kind> <owner> <token> <µs> <ttl ms> <bytes of the name> <name>`,
//! maybe with more behind it. Kinds: `g` a grant, `e` an eviction by force, `c` a broken counter.

use std::time::Duration;

use uuid::Uuid;

use crate::owner::OwnerId;
use crate::server::{Grant, Push};

/// `None` if it is not understood, or about an owner of another client.
pub(super) fn push(text: &str, client: Uuid) -> Option<Push> {
    let mut words = text.splitn(7, ' ');
    let kind = words.next()?;
    let owner: OwnerId = words.next()?.parse().ok()?;
    let token: u64 = words.next()?.parse().ok()?;
    let _at: u64 = words.next()?.parse().ok()?;
    let ttl: u64 = words.next()?.parse().ok()?;
    // By its length: a name may contain anything, and later releases may say more behind it.
    let length: usize = words.next()?.parse().ok()?;
    let lock = words.next()?.get(..length)?.to_owned();
    if owner.client != client {
        return None;
    }
    match kind {
        "g" => Some(Push::Grant(Grant { lock, owner, token, remaining: Duration::from_millis(ttl) })),
        "e" => Some(Push::Evicted { lock, owner, token }),
        "c" => Some(Push::CounterBroken { lock, owner }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Uuid = Uuid::from_u128(7);

    #[test]
    fn names_may_contain_anything_and_messages_may_grow() {
        let text = format!("g {CLIENT}:3 1796102523062960 1796102523062961 5000 6 a b\nc  more to come");
        let Some(Push::Grant(grant)) = push(&text, CLIENT) else { panic!("{text}") };
        assert_eq!(grant.lock, "a b\nc ");
        assert_eq!((grant.owner.count, grant.token), (3, 1_796_102_523_062_960));
        assert_eq!(grant.remaining, Duration::from_secs(5));
        assert!(matches!(
            push(&format!("e {CLIENT}:3 9 1 0 1 a"), CLIENT),
            Some(Push::Evicted { token: 9, .. })
        ));
        assert!(matches!(push(&format!("c {CLIENT}:3 0 1 0 1 a"), CLIENT), Some(Push::CounterBroken { .. })));
    }

    #[test]
    fn what_is_hostile_or_of_a_stranger_is_dropped() {
        let other = Uuid::from_u128(8);
        let far = u64::MAX;
        for text in [
            String::new(),
            "g".to_owned(),
            "g x 1 1 1 1 a".to_owned(),
            format!("g {CLIENT}:1 -1 1 1 1 a"),
            format!("g {CLIENT}:1 1 1 1 2 a"),
            format!("g {CLIENT}:1 1 1 1 {far} a"),
            // Cut inside a character.
            format!("g {CLIENT}:1 1 1 1 1 é"),
            format!("g {CLIENT}:1 1 1 1 1"),
            format!("x {CLIENT}:1 1 1 1 1 a"),
            format!("g {other}:1 1 1 1 1 a"),
        ] {
            assert!(push(&text, CLIENT).is_none(), "{text:?}");
        }
    }
}
