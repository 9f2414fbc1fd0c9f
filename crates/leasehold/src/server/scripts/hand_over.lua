-- Shared by take and pass: gives a lock that nobody holds to the first fit waiter. Runs only when N
-- is absent or was just deleted, behind a first write of the script that includes it. Expects what
-- common.lua expects.
--
-- hand_over(self) -> grant or nil, undecided
--   self       the calling owner if it waits: it wins if the walk is cut off before it
--   grant      {owner, facts, ttl (ms, text), channel (nil: the winner is the caller's own),
--              message}; the caller sends the message as its very last command
--              or {owner = nil, channel, message, fault}: the counter is broken, N stays free
--   undecided  the walk was cut off, and nobody was fit so far

-- One verdict for each client: 'fit', 'late' (fit, but it did not check when it had promised to),
-- 'dead' (nobody would hear the message: passed over, keeps its place), 'gone' (dead and overdue by
-- a minute: its ticket brings it back). Many at once: two commands for all of them.
local function judge(clients, verdicts, channels)
  local fields = {}
  for i = 1, #clients do
    fields[i] = 'c:' .. clients[i]
  end
  local signs = redis.call('HMGET', waiters, unpack(fields))
  local known, promises, counted, asked = {}, {}, {}, {}
  for i = 1, #clients do
    local promise, reach, channel = string.match(signs[i] or '', '^(%d+) (%a) (.*)$')
    if promise then
      local at = #known + 1
      known[at], promises[at], counted[at], asked[at] = clients[i], tonumber(promise), reach == 'c', channel
    else
      verdicts[clients[i]] = 'gone'
    end
  end
  if #known == 0 then
    return
  end
  -- NUMSUB and not the count that PUBLISH answers: a pattern subscriber of a monitoring tool is
  -- nobody's life sign, and it must be known before the writes.
  local seen = redis.pcall('PUBSUB', 'NUMSUB', unpack(asked))
  for at = 1, #known do
    local count = seen.err and -1 or seen[2 * at]
    local verdict = promises[at] <= now and 'late' or 'fit'
    if count < 1 and promises[at] + 60000000 <= now then
      verdict = 'gone'
    elseif counted[at] and count == 0 then
      verdict = 'dead'
    end
    verdicts[known[at]], channels[known[at]] = verdict, asked[at]
  end
end

local function hand_over(self)
  -- The caller is here: fit, and told by its reply.
  local verdicts, channels, judged = {[client] = 'fit'}, {}, 0
  local winner, wish, late, late_wish
  local drop, cut = {}, false
  -- The first alone, then many at once: nearly always the first is fit.
  local from, width = 0, 1
  while not winner and not cut do
    local owners = redis.call('ZRANGE', queue, from, from + width - 1)
    if #owners == 0 then
      break
    end
    local fields = {}
    for i = 1, #owners do
      fields[i] = 'w:' .. owners[i]
    end
    local wishes = redis.call('HMGET', waiters, unpack(fields))
    local whose, fresh = {}, {}
    for i = 1, #owners do
      -- By the owner's name, which begins with it: a pattern over the wish costs a third of the walk.
      local colon = wishes[i] and string.find(owners[i], ':', 1, true)
      local one = colon and string.sub(owners[i], 1, colon - 1)
      whose[i] = one
      if one and verdicts[one] == nil and judged < 512 then
        judged = judged + 1
        fresh[#fresh + 1] = one
        verdicts[one] = false
      end
    end
    if #fresh > 0 then
      judge(fresh, verdicts, channels)
    end
    for i = 1, #owners do
      local verdict = whose[i] and verdicts[whose[i]]
      if whose[i] and not verdict then
        cut = true
        break
      elseif verdict == 'fit' then
        winner, wish = owners[i], wishes[i]
        break
      elseif verdict == 'late' and not late then
        late, late_wish = owners[i], wishes[i]
      elseif not verdict or verdict == 'gone' then
        drop[#drop + 1] = owners[i]
      end
    end
    from = from + #owners
    width = 64
    cut = cut or (from >= 4096 and redis.call('ZCARD', queue) > from)
  end
  if #drop > 0 then
    redis.call('ZREM', queue, unpack(drop))
    for i = 1, #drop do
      drop[i] = 'w:' .. drop[i]
    end
    redis.call('HDEL', waiters, unpack(drop))
  end
  if not winner then
    winner, wish = late, late_wish
  end
  if not winner and cut and self then
    winner, wish = self, redis.call('HGET', waiters, 'w:' .. self)
  end
  if not winner then
    return nil, cut
  end

  local lease, claim, whose = string.match(wish, '^(%d+) (%d+) %a %d+ (%S+)')
  local channel = channels[whose]
  --@splice issue
  if not token then
    -- No holder is ever written without a token, and a release never fails because of the counter:
    -- N stays free, the waiter keeps its place, and its own take meets the error.
    return {
      channel = channel,
      message = 'c ' .. winner .. ' 0 ' .. number(now) .. ' 0 ' .. number(#name) .. ' ' .. name,
      fault = fault,
    }
  end
  local ttl = tonumber(claim) < tonumber(lease) and claim or lease
  local facts = string.format('t%.0f s%.0f l%s', token, now, lease)
  redis.call('HSET', name, winner, '1', 'owner', 'o' .. winner, 'f', facts)
  redis.call('PEXPIRE', name, ttl)
  redis.call('ZREM', queue, winner)
  -- g before the wish goes: an emptied W would come back without its expiry.
  redis.call('HSET', waiters, 'g', winner .. ' ' .. number(token))
  redis.call('HDEL', waiters, 'w:' .. winner)
  return {
    owner = winner,
    client = whose,
    token = token,
    facts = facts,
    ttl = ttl,
    channel = channel,
    message = channel and 'g ' .. winner .. ' ' .. number(token) .. ' ' .. number(now) .. ' ' .. ttl
      .. ' ' .. number(#name) .. ' ' .. name,
  }
end

-- Tells the winner, last of all and by pcall: a denied channel must not turn a hand-over that
-- happened into an error. Answers the channel that was denied.
local function tell(grant)
  if grant and grant.channel and type(redis.pcall('PUBLISH', grant.channel, grant.message)) == 'table' then
    return grant.channel
  end
end
