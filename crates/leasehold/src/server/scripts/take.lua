-- take: acquire, enqueue, enqueue again at the old place, or check: all in one.
--   KEYS  name fence queue waiters
--   ARGV  owner, lease (ms), claim (ms), mode (try | wait), ticket ('0': none), check_max (ms),
--         fence_ttl (ms), client, channel, reach (c: counted | b: blind | p: polls), who
--   ->    held    us token remaining unclaimed
--         queued  us remaining kind owner facts who ticket place missing subscribers
--         busy    us remaining kind owner facts who          (remaining -2: walk cut off, look again)
--         void    us                                         (this owner was ended before)
-- Extends nothing that stands. Replies may grow at their end.
local name, fence, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, lease, fence_ttl = ARGV[1], ARGV[2], ARGV[7]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The daily path, before anything else is even defined: nobody holds, nobody waits or waited.
if redis.call('EXISTS', name, queue, waiters) == 0 then
  -- First write: INCR. Refused by a full, read-only or cut-off server, before any effect.
  --@splice issue
  if not token then
    return fault
  end
  redis.call('HSET', name, owner, '1', 'owner', 'o' .. owner,
    'f', string.format('t%.0f s%.0f l%s', token, now, lease), 'who', ARGV[11])
  redis.call('PEXPIRE', name, lease)
  return {'held', now, token, lease, 0}
end

local claim, mode, ticket, check_max = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local client, channel, reach, who = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
--@splice common
--@splice hand_over

local told = redis.pcall('HMGET', waiters, 'v:' .. owner, 'g', 'w:' .. owner)
if told.err then
  return refused(waiters, 'hash', told)
end
local granted, old_wish = told[2], told[3]
if told[1] then
  return {'void', now}
end

local remaining = redis.call('PTTL', name)
local absent = remaining == -2

local mine
if not absent then
  mine = redis.pcall('HMGET', name, owner, 'owner', 'f', 'who')
  if mine[1] and mine[2] == 'o' .. owner then
    -- Without a write a replica that lags would answer this. GT: no effect on any kind of key.
    redis.call('PEXPIRE', name, 1, 'GT')
    local issued = string.match(mine[3] or '', '^t(%d+)') or '0'
    local unclaimed = granted == owner .. ' ' .. issued and 1 or 0
    return {'held', now, issued, remaining, unclaimed}
  end
  if mode == 'try' then
    return {'busy', now, remaining, holder(mine[2], mine[3], mine[4])}
  end
end

local score = redis.pcall('ZSCORE', queue, owner)
if type(score) == 'table' and score.err then
  return refused(queue, 'sorted set', score)
end

if absent and redis.call('EXISTS', queue) == 0 then
  -- First write: INCR, as above.
  --@splice issue
  if not token then
    return fault
  end
  redis.call('HSET', name, owner, '1', 'owner', 'o' .. owner,
    'f', string.format('t%.0f s%.0f l%s', token, now, lease), 'who', who)
  redis.call('PEXPIRE', name, lease)
  if granted then
    redis.call('HDEL', waiters, 'g')
  end
  return {'held', now, token, lease, 0}
end

-- Longer than this client's promise by a minute, whatever remains of the hold.
local life = math.ceil(check_max * 1.125) + 60300
-- First write: PEXPIRE where the script must be served by a full server, because it may hand over or
-- keeps an entry that is there; ZADD, which a full server refuses, where it would only grow.
if absent or score then
  keep(queue, life)
end
local missing = 0
if mode == 'wait' then
  if ticket == '0' then
    ticket = score
  elseif not score then
    missing = 1
  end
  if not ticket then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    ticket = number(math.max((tonumber(last) or 0) + 1, now))
  end
  if score ~= ticket then
    redis.call('ZADD', queue, ticket, owner)
    if not (absent or score) then
      keep(queue, life)
    end
  end
  -- Before the hand-over, which reads it.
  local wish = lease .. ' ' .. claim .. ' x 1 ' .. client
  if wish ~= old_wish then
    redis.call('HSET', waiters, 'w:' .. owner, wish)
  end
  if absent then
    keep(waiters, life)
  end
end

local kind, whose, facts, by
local grant, undecided
if absent then
  blame(granted)
  grant, undecided = hand_over(mode == 'wait' and owner or nil)
  if grant and grant.owner == owner then
    return {'held', now, grant.token, grant.ttl, 1}
  elseif grant and grant.owner then
    remaining, kind, whose, facts, by = grant.ttl, 'ours', grant.owner, grant.facts, ''
  elseif mode == 'try' and not grant and not undecided then
    --@splice issue
    if token then
      redis.call('HSET', name, owner, '1', 'owner', 'o' .. owner,
        'f', string.format('t%.0f s%.0f l%s', token, now, lease), 'who', who)
      redis.call('PEXPIRE', name, lease)
      return {'held', now, token, lease, 0}
    end
    grant = {fault = fault}
  else
    remaining, kind, whose, facts, by = -2, '', '', '', ''
  end
else
  kind, whose, facts, by = holder(mine[2], mine[3], mine[4])
end

if mode == 'wait' then
  -- When this client will have looked again, by the server's clock: a duration travels, no clock.
  local rest = math.min(tonumber(remaining), check_max)
  if rest < 0 then
    rest = check_max
  end
  redis.call('HSET', waiters, 'c:' .. client, number(now + rest * 1125 + 300000) .. ' ' .. reach .. ' ' .. channel)
  keep(waiters, life)
  sweep()
end
if grant and grant.fault then
  tell(grant)
  return grant.fault
end
if mode == 'try' then
  tell(grant)
  return {'busy', now, remaining, kind, whose, facts, by}
end
local place = redis.call('ZRANK', queue, owner) or 0
local seen = redis.pcall('PUBSUB', 'NUMSUB', channel)
local subscribers = seen.err and -1 or seen[2]
tell(grant)
return {'queued', now, remaining, kind, whose, facts, by, ticket, place, missing, subscribers}
