-- pass: release, give back, leave the queue, or evict by force; then hand over.
--   KEYS  name fence queue waiters
--   ARGV  client, fence_ttl (ms), void (ms that a tombstone lives; '0': none), target, a, b, notice
--         target own: a = owner; seen: a = owner, b = token, notice = its client's channel ('': not
--         one of ours); foreign: a = type, b = fingerprint
--   ->    released us broken owner facts remaining       (us 0: no clock was needed)
--         not      us found queued before owner facts remaining
-- owner, facts, remaining: the holder now, if it is another owner of the calling client; else empty.
-- broken: a side key of the wrong type or a denied channel, for which waiters were not served.
-- A release goes through on a full server: DEL and ZREM are allowed there, and behind them
-- everything is. It never fails because of the counter, the queue or a channel.
local name, fence, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local client, fence_ttl, void, target, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local mine = redis.pcall('HMGET', name, owner, 'owner', 'f')
if mine.err and not string.find(mine.err, 'WRONGTYPE', 1, true) then
  return mine
end
local ours = not mine.err and mine[1] and mine[2] == 'o' .. owner

-- The daily path: our own hold, nobody waits or waited, no tombstone.
if ours and target == 'own' and void == '0' and redis.call('EXISTS', queue, waiters) == 0 then
  -- First write, and the only one.
  redis.call('DEL', name)
  return {'released', 0, '', '', '', 0}
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
--@splice common
--@splice hand_over
--@splice fingerprint

local function found()
  if mine.err then
    return 'foreign'
  elseif mine[2] and redis.call('HEXISTS', name, string.sub(mine[2], 2)) == 1 then
    return 'other'
  end
  return redis.call('EXISTS', name) == 0 and 'absent' or 'foreign'
end

-- The reply's last three fields.
local function for_caller(grant)
  if grant then
    if grant.owner and grant.client == client then
      return grant.owner, grant.facts, grant.ttl
    end
    return '', '', 0
  end
  local kind, whose, facts = holder(mine[2], mine[3])
  if kind == 'ours' and whose ~= owner and string.sub(whose, 1, #client + 1) == client .. ':' then
    return whose, facts, redis.call('PTTL', name)
  end
  return '', '', 0
end

local function bury()
  if void ~= '0' then
    redis.call('HSET', waiters, 'v:' .. owner, number(now + void * 1000))
    keep(waiters, void + 60000)
    sweep()
  end
end

local hit = false
if target == 'own' then
  hit = ours
elseif target == 'seen' then
  hit = ours and string.match(mine[3] or '', '^t(%d+)') == ARGV[6]
else
  local kind = redis.call('TYPE', name).ok
  hit = kind ~= 'none' and found() == 'foreign' and kind == owner and fingerprint(kind) == ARGV[6]
end

if hit then
  -- First write. Whatever is wrong with the side keys, the hold ends.
  redis.call('DEL', name)
  local broken, grant = '', nil
  local kind = redis.call('TYPE', waiters).ok
  if kind ~= 'none' and kind ~= 'hash' then
    broken = waiters
  else
    if kind == 'hash' then
      if target ~= 'foreign' then
        redis.call('HSET', waiters, 'prev', owner)
      end
      redis.call('HDEL', waiters, 'g')
    end
    if target ~= 'foreign' then
      bury()
    end
    kind = redis.call('TYPE', queue).ok
    if kind == 'zset' then
      grant = hand_over()
    elseif kind ~= 'none' then
      broken = queue
    end
  end
  local denied = tell(grant)
  if denied then
    broken = denied
  end
  local a, b, c = '', '', 0
  if grant then
    a, b, c = for_caller(grant)
  end
  if target == 'seen' and ARGV[7] ~= '' then
    -- The very last command, and by pcall: the eviction has happened.
    redis.pcall('PUBLISH', ARGV[7], 'e ' .. owner .. ' ' .. ARGV[6] .. ' ' .. number(now) .. ' 0 '
      .. number(#name) .. ' ' .. name)
  end
  return {'released', now, broken, a, b, c}
end

if target ~= 'own' then
  -- A write without effect: only a server that takes writes may say that it was not there.
  redis.call('PEXPIRE', name, 1, 'GT')
  return {'not', now, found(), 0, 0, '', '', 0}
end

local told = redis.pcall('HMGET', waiters, 'prev', 'g')
if told.err then
  return refused(waiters, 'hash', told)
end
-- First write: ZREM, allowed on a full server.
local queued = redis.pcall('ZREM', queue, owner)
if type(queued) == 'table' then
  return refused(queue, 'sorted set', queued)
end
local before = told[1] == owner and 1 or 0
redis.call('HDEL', waiters, 'w:' .. owner)
bury()
local state = found()
local grant
if state == 'absent' and redis.call('EXISTS', queue) == 1 then
  blame(told[2])
  grant = hand_over()
  tell(grant)
end
local a, b, c = for_caller(grant)
return {'not', now, state, queued, before, a, b, c}
