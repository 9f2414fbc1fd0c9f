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
-- a minute: its ticket brings it back).
local function judge(whose)
  if whose == client then
    return 'fit'
  end
  local sign = redis.call('HGET', waiters, 'c:' .. whose)
  local promise, reach, channel = string.match(sign or '', '^(%d+) (%a) (.*)$')
  if not promise then
    return 'gone'
  end
  promise = tonumber(promise)
  -- NUMSUB and not the count that PUBLISH answers: a pattern subscriber of a monitoring tool is
  -- nobody's life sign, and it must be known before the writes.
  local seen = redis.pcall('PUBSUB', 'NUMSUB', channel)
  local count = seen.err and -1 or seen[2]
  if count < 1 and promise + 60000000 <= now then
    return 'gone'
  end
  if reach == 'c' and count == 0 then
    return 'dead'
  end
  return promise <= now and 'late' or 'fit', channel
end

local function hand_over(self)
  local verdicts, channels, judged = {}, {}, 0
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
    for i = 1, #owners do
      local whose = wishes[i] and string.match(wishes[i], '^%d+ %d+ %a %d+ (%S+)')
      if not whose then
        drop[#drop + 1] = owners[i]
      else
        local verdict = verdicts[whose]
        if not verdict then
          if judged >= 512 then
            cut = true
            break
          end
          judged = judged + 1
          verdict, channels[whose] = judge(whose)
          verdicts[whose] = verdict
        end
        if verdict == 'fit' then
          winner, wish = owners[i], wishes[i]
          break
        elseif verdict == 'gone' then
          drop[#drop + 1] = owners[i]
        elseif verdict == 'late' and not late then
          late, late_wish = owners[i], wishes[i]
        end
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
