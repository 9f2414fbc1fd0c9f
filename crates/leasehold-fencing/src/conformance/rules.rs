//! The rules, one function each, in the order in which a new store usually breaks them.

use super::join::join_all;
use super::{Run, Violation, duplicate, stale, violation};
use crate::{FencedStore, Token};

/// A first token is taken, and its holder may write as often as it likes and claim again.
pub(super) async fn one_holder<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "several writes under one hold";
    let token = run.token("one-holder", 5, 1)?;
    let claim = run.claim(RULE, &token).await?;
    let before = run.read(RULE, &claim).await?;
    if before.is_some() {
        return Err(violation(RULE, "a fresh prefix was expected, but there is a value"));
    }
    run.write(RULE, &claim, b"one").await?;
    run.write(RULE, &claim, b"two").await?;
    run.write(RULE, &claim, b"two").await?;
    let again = run.claim(RULE, &token).await?;
    run.expect(RULE, &again, b"two").await?;
    run.write(RULE, &claim, b"three").await?;
    run.expect(RULE, &again, b"three").await
}

/// A newer claim ends the older one at once, before its own first write and after it; and no refused
/// token moves the mark.
pub(super) async fn succession<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "a newer claim ends the older one";
    const MARK: &str = "a refused token leaves the mark alone";
    let old = run.claim(RULE, &run.token("succession", 7, 1)?).await?;
    run.write(RULE, &old, b"old").await?;
    let new = run.claim(RULE, &run.token("succession", 9, 2)?).await?;
    stale(RULE, run.store.write(&old, b"late").await, 9)?;
    run.expect(RULE, &new, b"old").await?;
    run.write(RULE, &new, b"new").await?;
    stale(RULE, run.store.write(&old, b"later").await, 9)?;

    stale(MARK, run.store.claim(&run.token("succession", 7, 1)?).await, 9)?;
    stale(MARK, run.store.claim(&run.token("succession", 8, 3)?).await, 9)?;
    stale(MARK, run.store.write(&old, b"latest").await, 9)?;
    run.expect(MARK, &new, b"new").await?;
    run.write(MARK, &new, b"newer").await?;
    run.expect(MARK, &new, b"newer").await
}

/// What the older holder was able to write is seen by the newer one's first read.
pub(super) async fn claim_before_read<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "a claim sees every write that was accepted before it";
    for sequence in 1..=5_u8 {
        let claim = run.claim(RULE, &run.token("reads", sequence.into(), sequence)?).await?;
        if sequence > 1 {
            run.expect(RULE, &claim, &[sequence - 1]).await?;
        }
        run.write(RULE, &claim, &[sequence]).await?;
    }
    Ok(())
}

/// One number, two holders: the second is refused, and the first goes on.
pub(super) async fn duplicate_number<S: FencedStore>(
    run: &Run<'_, S>,
    resource: &str,
    first: [u8; 16],
    second: [u8; 16],
) -> Result<(), Violation> {
    const RULE: &str = "one number under two holders is a duplicate";
    let name = format!("{}/{resource}", run.prefix);
    let token = |holder| {
        Token::new(name.as_str(), 3, holder).map_err(|error| violation("tokens of the check", &error))
    };
    let claim = run.claim(RULE, &token(first)?).await?;
    run.write(RULE, &claim, b"first").await?;
    duplicate(RULE, run.store.claim(&token(second)?).await)?;
    run.write(RULE, &claim, b"still first").await?;
    run.expect(RULE, &claim, b"still first").await
}

/// The plain case of [`duplicate_number`].
pub(super) async fn duplicates<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    duplicate_number(run, "duplicate", [1; 16], [2; 16]).await
}

/// Numbers are compared as numbers, up to the largest: not as text, not in 32 bits, not as floats.
pub(super) async fn numbers<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "sequences are compared as numbers";
    let rising = [
        0,
        1,
        9,
        10,
        99,
        100,
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        1_796_102_523_062_959,
        1_796_102_523_062_960,
        Token::MAX_SEQUENCE - 1,
        Token::MAX_SEQUENCE,
    ];
    let mut last: Option<(S::Claim, u64)> = None;
    for sequence in rising {
        let claim = run.claim(RULE, &run.token("numbers", sequence, 1)?).await?;
        if let Some((older, before)) = last {
            stale(RULE, run.store.write(&older, b"late").await, sequence)?;
            stale(RULE, run.store.claim(&run.token("numbers", before, 1)?).await, sequence)?;
        }
        run.write(RULE, &claim, &sequence.to_be_bytes()).await?;
        run.expect(RULE, &claim, &sequence.to_be_bytes()).await?;
        last = Some((claim, sequence));
    }
    Ok(())
}

/// Resources are told apart byte by byte.
pub(super) async fn names<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "resources with different names have nothing in common";
    let long = "x".repeat(200);
    let longer = format!("{long}y");
    let names = [
        "names/a",
        "names/A",
        "names/a ",
        "names/ä",
        "names/a\u{308}",
        "names/a%20",
        "names/a_",
        "names/{a}",
        "names/a'b",
        "names/a\"b",
        "names/a/b",
        "names/a\\b",
        "names/a*",
        "names/a\n",
        &long,
        &longer,
    ];
    // The numbers fall, so that any two names that share a mark meet as stale.
    for (sequence, name) in (10..100).rev().zip(names) {
        let claim = run.claim(RULE, &run.token(name, sequence, 1)?).await?;
        run.write(RULE, &claim, name.as_bytes()).await?;
    }
    for (sequence, name) in (10..100).rev().zip(names) {
        let claim = run.claim(RULE, &run.token(name, sequence, 1)?).await?;
        run.expect(RULE, &claim, name.as_bytes()).await?;
    }
    Ok(())
}

/// Holders are sixteen bytes, all of which count.
pub(super) async fn holders<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    let mut last_bit = [0xff; 16];
    last_bit[15] = 0xfe;
    let mut text = *b"abcdefghijklmnop";
    duplicate_number(run, "holders/zero", [0; 16], [0x20; 16]).await?;
    duplicate_number(run, "holders/last-bit", [0xff; 16], last_bit).await?;
    let lower = text;
    text.make_ascii_uppercase();
    duplicate_number(run, "holders/case", lower, text).await?;
    duplicate_number(run, "holders/nul", *b"abcdefgh\0\0\0\0\0\0\0\0", *b"abcdefgh\0\0\0\0\0\0\0\x01").await
}

/// Of many claims at the same time, the highest remains.
pub(super) async fn concurrent_claims<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "of many claims at one time, the highest remains";
    for round in 0..4_u64 {
        let resource = format!("claims/{round}");
        let mut tokens = Vec::new();
        for place in 0..4_u64 {
            // A different order in each round: 0 1 2 3, 1 3 0 2, …
            let sequence = 10 + (place * (round + 1) + round) % 5;
            let holder = u8::try_from(sequence).unwrap_or(0);
            tokens.push(run.token(&resource, sequence, holder)?);
        }
        let highest = tokens.iter().map(Token::sequence).max().unwrap_or(0);
        let claims = join_all(tokens.iter().map(|token| run.store.claim(token))).await;
        for (token, outcome) in tokens.iter().zip(claims) {
            let top = token.sequence() == highest;
            match outcome {
                Ok(claim) if top => run.write(RULE, &claim, b"highest").await?,
                Ok(claim) => stale(RULE, run.store.write(&claim, b"lower").await, highest)?,
                Err(error) if top || !error.is_refused() => return Err(violation(RULE, &error)),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

/// A counter that is read under the claim and written under it loses no accepted write, whatever the
/// holders' steps come between.
pub(super) async fn lost_updates<S: FencedStore>(run: &Run<'_, S>) -> Result<(), Violation> {
    const RULE: &str = "no accepted write is lost";
    let mut accepted = 0_u64;
    for generation in 0..6_u64 {
        let bump = |step: u64| async move {
            let holder = u8::try_from(1 + step).unwrap_or(0);
            let token = run.token("lost-updates", generation * 4 + step + 1, holder)?;
            let Ok(claim) = run.store.claim(&token).await else { return Ok(0) };
            let Ok(read) = run.store.read(&claim).await else { return Ok(0) };
            let next = count(read.as_deref())? + 1;
            Ok(u64::from(run.store.write(&claim, &next.to_be_bytes()).await.is_ok()))
        };
        for outcome in join_all((0..4).map(bump)).await {
            accepted += outcome?;
        }
    }
    let last = run.claim(RULE, &run.token("lost-updates", 1000, 9)?).await?;
    let stored = count(run.read(RULE, &last).await?.as_deref())?;
    if stored != accepted || accepted == 0 {
        return Err(violation(RULE, &format!("{accepted} writes were accepted, but {stored} are there")));
    }
    Ok(())
}

fn count(value: Option<&[u8]>) -> Result<u64, Violation> {
    let Some(bytes) = value else { return Ok(0) };
    let bytes = bytes.try_into().map_err(|_| violation("no accepted write is lost", "a torn value"))?;
    Ok(u64::from_be_bytes(bytes))
}
