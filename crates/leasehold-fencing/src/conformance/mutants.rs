//! Stores with one mistake each: every rule must be able to fail.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::{Mark, Memory, Verdict};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    RefusesEqual,
    AcceptsDuplicate,
    WritesUnchecked,
    ClaimsUnchecked,
    ClaimRecordsNothing,
    ComparesText,
    Keeps32Bits,
    FoldsCase,
    TrimsNames,
    CutsNames,
    ForgetsHolderTail,
    ReadsBeforeClaim,
}

struct Broken {
    mistake: Mistake,
    values: Mutex<HashMap<String, Slot>>,
}

type Slot = (Mark, Option<Vec<u8>>);

struct Claim {
    token: Token,
    seen: Option<Vec<u8>>,
}

impl Broken {
    fn name(&self, token: &Token) -> String {
        let name = token.resource();
        match self.mistake {
            Mistake::FoldsCase => name.to_lowercase(),
            Mistake::TrimsNames => name.trim_end().to_owned(),
            Mistake::CutsNames => name.chars().take(64).collect(),
            _ => name.to_owned(),
        }
    }

    fn mark(&self, token: &Token) -> Mark {
        let mut holder = token.holder();
        let mut sequence = token.sequence();
        if self.mistake == Mistake::ForgetsHolderTail {
            holder[8..].fill(0);
        }
        if self.mistake == Mistake::Keeps32Bits {
            sequence &= 0xffff_ffff;
        }
        Mark::new(sequence, holder)
    }

    fn verdict(&self, token: &Token, stored: Option<Mark>) -> Result<Verdict, FenceError> {
        let ours = self.mark(token);
        let cut = Token::new("cut", ours.sequence(), ours.holder()).unwrap();
        let verdict = match (self.mistake, stored, cut.check(stored)) {
            (Mistake::RefusesEqual, _, Verdict::Same) => Verdict::Stale,
            (Mistake::AcceptsDuplicate, _, Verdict::Duplicate) => Verdict::Same,
            (Mistake::ComparesText, Some(stored), Verdict::Newer | Verdict::Stale) => {
                let newer = ours.sequence().to_string() > stored.sequence().to_string();
                if newer { Verdict::Newer } else { Verdict::Stale }
            }
            (_, _, verdict) => verdict,
        };
        match (verdict, stored) {
            (Verdict::Stale, Some(stored)) => Err(FenceError::Stale { ours: token.clone(), stored }),
            (Verdict::Duplicate, Some(stored)) => Err(FenceError::Duplicate { ours: token.clone(), stored }),
            (verdict, _) => Ok(verdict),
        }
    }
}

/// Lets the others run: a store has many such points.
async fn breathe() {
    let mut once = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut once, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl FencedStore for Broken {
    type Error = Infallible;
    type Claim = Claim;

    async fn claim(&self, token: &Token) -> Result<Claim, FenceError> {
        let name = self.name(token);
        let seen = self.values.lock().unwrap().get(&name).and_then(|slot| slot.1.clone());
        breathe().await;
        let mut values = self.values.lock().unwrap();
        let stored = values.get(&name).map(|slot| slot.0);
        let verdict = self.verdict(token, stored);
        if self.mistake != Mistake::ClaimsUnchecked {
            verdict?;
        }
        if self.mistake != Mistake::ClaimRecordsNothing || stored.is_none() {
            values.entry(name).or_insert((self.mark(token), None)).0 = self.mark(token);
        }
        Ok(Claim { token: token.clone(), seen })
    }

    async fn read(&self, claim: &Claim) -> Result<Option<Vec<u8>>, FenceError> {
        breathe().await;
        if self.mistake == Mistake::ReadsBeforeClaim {
            return Ok(claim.seen.clone());
        }
        Ok(self.values.lock().unwrap()[&self.name(&claim.token)].1.clone())
    }

    async fn write(&self, claim: &Claim, value: &[u8]) -> Result<(), FenceError> {
        breathe().await;
        let mut values = self.values.lock().unwrap();
        let slot = values.get_mut(&self.name(&claim.token)).unwrap();
        if self.mistake != Mistake::WritesUnchecked {
            self.verdict(&claim.token, Some(slot.0))?;
            slot.0 = self.mark(&claim.token);
        }
        slot.1 = Some(value.to_vec());
        Ok(())
    }
}

fn run<S: FencedStore>(store: &S) -> Result<(), Violation> {
    let mut check = pin!(conformance(store, "test"));
    loop {
        if let Poll::Ready(outcome) = check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return outcome;
        }
    }
}

fn broken(mistake: Mistake) -> Result<(), Violation> {
    run(&Broken { mistake, values: Mutex::default() })
}

#[test]
fn sound_stores_pass() {
    run(&Memory::new()).unwrap();
    broken(Mistake::None).unwrap();
}

#[test]
fn each_mistake_is_found() {
    use Mistake as M;
    let mistakes = [
        (M::RefusesEqual, "several writes under one hold"),
        (M::AcceptsDuplicate, "one number under two holders is a duplicate"),
        (M::WritesUnchecked, "a newer claim ends the older one"),
        (M::ClaimsUnchecked, "a refused token leaves the mark alone"),
        (M::ClaimRecordsNothing, "a newer claim ends the older one"),
        (M::ComparesText, "sequences are compared as numbers"),
        (M::Keeps32Bits, "sequences are compared as numbers"),
        (M::FoldsCase, "resources with different names have nothing in common"),
        (M::TrimsNames, "resources with different names have nothing in common"),
        (M::CutsNames, "resources with different names have nothing in common"),
        (M::ForgetsHolderTail, "one number under two holders is a duplicate"),
    ];
    for (mistake, rule) in mistakes {
        assert_eq!(broken(mistake).map_err(|found| found.rule), Err(rule), "{mistake:?}");
    }
    assert!(broken(M::ReadsBeforeClaim).is_err(), "stale reads are found");
}
